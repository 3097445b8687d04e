#include "train/comm/watchdog.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "train/output.hpp"

namespace heed::comm {

Watchdog::Watchdog(Board& board, double timeout_s) : board_(board), timeout_s_(timeout_s) {
  // Signals are for the thread that trains.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Watchdog::Wait::Wait(Watchdog& watchdog, const char* what) : watchdog_(watchdog) {
  const std::lock_guard guard(watchdog_.mutex_);
  watchdog_.waits_for_ = what;
  watchdog_.began_ = std::chrono::steady_clock::now();
  watchdog_.board_.begin_wait();
}

Watchdog::Wait::~Wait() {
  const std::lock_guard guard(watchdog_.mutex_);
  watchdog_.waits_for_ = nullptr;
  watchdog_.board_.end_wait();
}

void Watchdog::set_update(int64_t update) {
  const std::lock_guard guard(mutex_);
  update_ = update;
  board_.set_update(update);
}

void Watchdog::set_elsewhere(std::vector<bool> elsewhere) {
  const std::lock_guard guard(mutex_);
  elsewhere_ = std::move(elsewhere);
}

void Watchdog::on_timeout(std::function<void()> action) {
  const std::lock_guard guard(mutex_);
  action_ = std::move(action);
}

// Looks a few times a second, so that a wait costs its thread no system call.
void Watchdog::watch() {
  const auto timeout = std::chrono::duration<double>(timeout_s_);
  const auto pause = std::min(timeout / 10, std::chrono::duration<double>(0.25));
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, pause);
    if (waits_for_ == nullptr || std::chrono::steady_clock::now() - began_ < timeout) continue;
    give_up(waits_for_);
  }
}

std::string Watchdog::report(const char* what) const {
  std::string ranks;
  for (const int rank : board_.missing(elsewhere_)) {
    ranks += (ranks.empty() ? "" : ", ") + board_.describe(rank);
  }
  if (ranks.empty()) ranks = "no rank of this node is missing, so one of another node is";
  const std::string place = update_ == 0 ? std::string() : fmt::format(", update {}", update_);
  return fmt::format("heed: rank {}{}: waited {:g} s (train.comm_timeout_s) for {}; missing: {}\n", board_.rank(),
                     place, timeout_s_, what, ranks);
}

void Watchdog::give_up(const char* what) {
  // The others come to the same end within moments; what they would write is the same.
  if (board_.claim_report()) train::write_notice(report(what));
  board_.unlink();  // where not all have come, nobody else does
  if (action_) {
    action_();
    usleep(200'000);
  }
  _exit(7);
}

}  // namespace heed::comm
