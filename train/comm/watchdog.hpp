// Ends a process that waits too long for other ranks, and says for whom.
//
// A thread of its own looks at the clock, since the one that waits is inside of MPI, NCCL or the system: also inside of
// MPI_Init, where nothing else could end it. When a wait has lasted train.comm_timeout_s, the first rank of the node to
// notice writes one line, all start what on_timeout() set, and the process ends with exit code 7; the launcher ends the
// others. Time in which the whole process stands still (SIGSTOP, a suspended job) does not count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "train/comm/board.hpp"

namespace heed::comm {

class Watchdog {
 public:
  Watchdog(Board& board, double timeout_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // While one lives, this process waits for the others. Not nested.
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
  // Ranks of other nodes, which the board does not see: a flag for each rank.
  void set_elsewhere(std::vector<bool> elsewhere);
  // Started before the end, for a library that can be interrupted: the process ends shortly after, done or not.
  void on_timeout(std::function<void()> action);
  // Asked now and then during a wait: an error that no call of this process would show, else an empty text. It ends the
  // process as a timeout does.
  void ask_for_errors(std::function<std::string()> question);

 private:
  void watch();
  [[noreturn]] void give_up(const std::string& reason);
  std::string missing_ranks() const;

  Board& board_;
  double timeout_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  const char* waits_for_ = nullptr;
  double waited_s_ = 0;  // as far as this process was running
  int64_t update_ = 0;
  std::vector<bool> elsewhere_;
  std::function<void()> action_;
  std::function<std::string()> question_;
  std::thread thread_;  // last, so that all is there when it starts
};

}  // namespace heed::comm
