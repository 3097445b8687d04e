#include "train/comm/watchdog.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "train/output/output.hpp"

namespace heed::comm {

Watchdog::Watchdog(HeartbeatPage& board, double timeout_s) : board_(board), timeout_s_(timeout_s) {
  // Signals must be delivered to the training thread.
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
  watchdog_.waited_s_ = 0;
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

void Watchdog::ask_for_errors(std::function<std::string()> question) {
  const std::lock_guard guard(mutex_);
  question_ = std::move(question);
}

void Watchdog::on_timeout(std::function<void()> action) {
  const std::lock_guard guard(mutex_);
  action_ = std::move(action);
}

// Polls a few times a second, so that a wait costs the waiting thread no system call.
void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  const double pause_s = std::min(timeout_s_ / 10, 0.25);
  std::unique_lock lock(mutex_);
  for (auto before = Clock::now(); !ending_;) {
    changed_.wait_for(lock, std::chrono::duration<double>(pause_s));
    const auto now = Clock::now();
    waited_s_ += std::min(std::chrono::duration<double>(now - before).count(), 2 * pause_s);
    before = now;
    if (waits_for_ == nullptr) continue;
    if (const std::string error = question_ ? question_() : std::string(); !error.empty()) give_up(error);
    if (waited_s_ < timeout_s_) continue;
    give_up(fmt::format("waited {:g} s (train.comm_timeout_s) for {}; missing: {}", timeout_s_, waits_for_,
                        missing_ranks()));
  }
}

std::string Watchdog::missing_ranks() const {
  std::string ranks;
  for (const int rank : board_.missing(elsewhere_)) {
    ranks += (ranks.empty() ? "" : ", ") + board_.describe(rank);
  }
  return ranks.empty() ? "no rank of this node is missing, so one of another node is" : ranks;
}

void Watchdog::give_up(const std::string& reason) {
  const std::string place = update_ == 0 ? std::string() : fmt::format(", step {}", update_);
  // The other ranks of the node time out within moments and would write the same.
  if (board_.claim_report()) train::write_notice(fmt::format("heed: rank {}{}: {}\n", board_.rank(), place, reason));
  board_.unlink();  // before the rendezvous is complete, no other code unlinks it
  // In a separate thread: ncclCommAbort itself may block until captured graphs are destroyed, or for other ranks.
  if (action_) {
    std::thread(action_).detach();
    usleep(500'000);
  }
  _exit(7);
}

}  // namespace heed::comm
