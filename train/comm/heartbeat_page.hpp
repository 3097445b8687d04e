// Heartbeat page: a page of shared memory through which the ranks of one job on one node report their progress without
// communication. Each rank writes its own slot. A rank that waits in a collective can tell from it which ranks have not
// reached that collective, and whether such a rank is busy, stopped (SIGSTOP), dead, or has not reached MPI_Init yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace heed::comm {

class HeartbeatPage {
 public:
  // Opens the heartbeat page of this job, or creates it. It is a file in `folder`, whose owner removes it at the end of
  // the job. Without a folder it is a file in /dev/shm, which is left over if all ranks are killed before they can
  // unlink it. Throws CommunicationError.
  HeartbeatPage(const std::string& job, int rank, int size, const std::string& folder = {});
  ~HeartbeatPage();  // also unlinks the file, unless that is done
  HeartbeatPage(const HeartbeatPage&) = delete;
  HeartbeatPage& operator=(const HeartbeatPage&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Removes the file name. Called once all ranks have joined, or one has given up, so that no file is left over,
  // however the job ends.
  void unlink() noexcept;

  // Progress of this rank: the step it works on, and that it has begun or ended a wait for other ranks.
  void set_update(int64_t update) noexcept;
  void begin_wait() noexcept;
  void end_wait() noexcept;

  // Called while this rank waits: returns the ranks that have not reached the wait of this rank, or are stopped.
  // `elsewhere` is empty or has one flag per rank, true for a rank on another node, which does not use this page.
  std::vector<int> missing(const std::vector<bool>& elsewhere) const;
  // "rank 1 (last seen in step 17, process 4711 is stopped)"
  std::string describe(int rank) const;
  // Returns true only for the first rank that calls it, so that the node prints one report.
  bool claim_report() noexcept;

 private:
  struct Slot {
    std::atomic<int64_t> process, update, waits, is_waiting;
    int64_t unused[4];
  };
  struct Page {
    std::atomic<int64_t> reporter;
    int64_t unused[7];
    Slot slots[1];
  };
  Slot& slot(int rank) const { return page_->slots[rank]; }

  std::string path_;
  bool has_name_ = true;
  int rank_, size_;
  int64_t bytes_;
  Page* page_ = nullptr;
};

}  // namespace heed::comm
