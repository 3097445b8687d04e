// What the ranks of one job on one node tell each other without any communication: a page of shared memory in which
// each writes how far it has come. It can be read while a peer is stopped, dead, or has not yet come to MPI_Init.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace heed::comm {

class Board {
 public:
  // Joins the board of this job, or makes it. It is a file of the folder, which its owner removes at the end of the
  // job; or without one of /dev/shm, where it stays when all ranks are killed before they could unlink it. Throws
  // CommunicationError.
  Board(const std::string& job, int rank, int size, const std::string& folder = {});
  ~Board();  // unlinks it too
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Once all ranks are known to be here, or one has given up: nothing stays behind, however the job ends.
  void unlink() noexcept;

  // This rank's: the update it works on, and waits for other ranks that it has begun.
  void set_update(int64_t update) noexcept;
  void begin_wait() noexcept;
  void end_wait() noexcept;

  // To be asked while this rank waits. Ranks that have not come to what it waits for; `elsewhere`, a flag for each rank
  // or empty, are those of other nodes, which this board does not see.
  std::vector<int> missing(const std::vector<bool>& elsewhere) const;
  // "rank 1 (last seen in update 17, process 4711 is stopped)"
  std::string describe(int rank) const;
  // True for the first rank that asks: one report is enough.
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
