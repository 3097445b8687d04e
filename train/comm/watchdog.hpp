// Watchdog: ends a process that waits too long for other ranks, and reports which ranks are missing.
//
// A separate thread measures the wait, since the waiting thread is inside MPI, NCCL or the system, possibly inside
// MPI_Init, where nothing else could end it. When a wait has lasted train.comm_timeout_s, the first rank of the node to
// notice writes one line. Each process then starts its on_timeout() action and exits with code 7; the launcher ends the
// other ranks. Time in which the whole process is stopped (SIGSTOP, a suspended job) does not count.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heed::comm {

// Heartbeat page: a page of shared memory through which the ranks of one job on one node report their progress without
// communication. Each rank writes its own slot. A rank that waits in a collective can tell from it which ranks have not
// reached that collective, and whether such a rank is busy, stopped (SIGSTOP), dead, or has not reached MPI_Init yet.
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
  void set_step(int64_t step) noexcept;
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
    std::atomic<int64_t> process, step, waits, is_waiting;
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

// Measures the running time of this process in seconds. A period in which the process is stopped (SIGSTOP, a suspended
// job) counts for two seconds at most, so that a rank that was stopped itself does not report others as missing.
class RunningClock {
 public:
  // Call this several times a second: each call advances the clock by two seconds at most.
  double seconds() {
    const auto now = std::chrono::steady_clock::now();
    seconds_ += std::min(std::chrono::duration<double>(now - before_).count(), 2.0);
    before_ = now;
    return seconds_;
  }

 private:
  std::chrono::steady_clock::time_point before_ = std::chrono::steady_clock::now();
  double seconds_ = 0;
};

class Watchdog {
 public:
  Watchdog(HeartbeatPage& heartbeat, double timeout_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // RAII: while it lives, this process waits for other ranks. Waits do not nest.
  class Wait {
   public:
    Wait(Watchdog& watchdog, const char* what);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
  };

  void set_step(int64_t step);
  // Marks the ranks of other nodes, which do not use this heartbeat page: one flag per rank.
  void set_elsewhere(std::vector<bool> elsewhere);
  // Sets an action that is started before the process exits, to interrupt a library. The process exits shortly after,
  // whether the action is done or not.
  void on_timeout(std::function<void()> action);
  // Sets a function that is called regularly during a wait. It returns an asynchronous error that no call of this
  // process would report, else an empty text. An error ends the process like a timeout.
  void ask_for_errors(std::function<std::string()> question);

 private:
  void watch();
  [[noreturn]] void give_up(const std::string& reason);
  std::string missing_ranks() const;

  HeartbeatPage& heartbeat_;
  double timeout_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  const char* waits_for_ = nullptr;
  double waited_s_ = 0;  // running time of this process only
  int64_t step_ = 0;
  std::vector<bool> elsewhere_;
  std::function<void()> action_;
  std::function<std::string()> question_;
  std::thread thread_;  // last member: all others exist when the thread starts
};

}  // namespace heed::comm
