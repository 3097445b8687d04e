// Watchdog: ends a process that waits too long for other ranks, and reports which ranks are missing.
//
// A separate thread measures the wait, since the waiting thread is inside MPI, NCCL or the system, possibly inside
// MPI_Init, where nothing else could end it. When a wait has lasted train.comm_timeout_s, the first rank of the node to
// notice writes one line. Each process then starts its on_timeout() action and exits with code 7; the launcher ends the
// other ranks. Time in which the whole process is stopped (SIGSTOP, a suspended job) does not count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "train/comm/heartbeat_page.hpp"

namespace heed::comm {

class Watchdog {
 public:
  Watchdog(HeartbeatPage& board, double timeout_s);
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

  void set_update(int64_t update);
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

  HeartbeatPage& board_;
  double timeout_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  const char* waits_for_ = nullptr;
  double waited_s_ = 0;  // running time of this process only
  int64_t update_ = 0;
  std::vector<bool> elsewhere_;
  std::function<void()> action_;
  std::function<std::string()> question_;
  std::thread thread_;  // last member: all others exist when the thread starts
};

}  // namespace heed::comm
