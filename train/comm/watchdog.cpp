#include "train/comm/watchdog.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"
#include "train/output/output.hpp"

namespace heed::comm {
namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free, "shared between processes");

// The process state letter of proc(5): 'T' stopped, 'Z' zombie; '\0' if there is no such process.
char state_of(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  // The state follows the program name, which is in parentheses and may contain any character.
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

bool is_alive(int64_t process) {
  const char state = process == 0 ? '\0' : state_of(process);
  return state != '\0' && state != 'Z' && state != 'X';
}

}  // namespace

HeartbeatPage::HeartbeatPage(const std::string& job, int rank, int size, const std::string& folder)
    : path_(fmt::format("{}/heed-{}-{:016x}", folder.empty() ? "/dev/shm" : folder, getuid(),
                        data::checksum(fmt::format("{} {}", job, size)))),
      rank_(rank),
      size_(size),
      bytes_(static_cast<int64_t>(sizeof(Page) + sizeof(Slot) * static_cast<size_t>(size))) {
  const int file = open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  require<CommunicationError>(file >= 0, "shared memory {} for the ranks of this node: {}", path_,
                              std::strerror(errno));
  void* memory = MAP_FAILED;
  // ftruncate() fills a new file with zeros and leaves an existing page as it is.
  if (ftruncate(file, bytes_) == 0) {
    memory = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int error = errno;
  close(file);
  require<CommunicationError>(memory != MAP_FAILED, "shared memory {} for the ranks of this node: {}", path_,
                              std::strerror(error));
  page_ = static_cast<Page*>(memory);
  Slot& mine = slot(rank_);
  mine.step = mine.waits = mine.is_waiting = 0;
  mine.process = getpid();
  if (rank_ == 0) page_->reporter = 0;  // may be left over from an earlier job of the same name
}

HeartbeatPage::~HeartbeatPage() {
  // A rank that exits before all ranks have joined has failed, and the other ranks will not join either.
  if (has_name_) unlink();
  slot(rank_).process = 0;
  munmap(page_, static_cast<size_t>(bytes_));
}

void HeartbeatPage::unlink() noexcept {
  ::unlink(path_.c_str());
  has_name_ = false;
}

void HeartbeatPage::set_step(int64_t step) noexcept { slot(rank_).step = step; }
void HeartbeatPage::begin_wait() noexcept {
  slot(rank_).is_waiting = 1;
  ++slot(rank_).waits;
}
void HeartbeatPage::end_wait() noexcept { slot(rank_).is_waiting = 0; }

std::vector<int> HeartbeatPage::missing(const std::vector<bool>& elsewhere) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!elsewhere.empty() && elsewhere[static_cast<size_t>(rank)]) continue;
    const bool has_come = is_alive(slot(rank).process) && slot(rank).waits >= slot(rank_).waits;
    // A stopped rank may have reached the wait before, but it blocks the others all the same.
    if (!has_come || state_of(slot(rank).process) == 'T') ranks.push_back(rank);
  }
  return ranks;
}

std::string HeartbeatPage::describe(int rank) const {
  const int64_t process = slot(rank).process;
  if (process == 0) return fmt::format("rank {} (not started on this node)", rank);
  const int64_t step = slot(rank).step;
  const std::string place = step == 0 ? std::string("before the first step") : fmt::format("in step {}", step);
  const char* state = !is_alive(process) ? "has ended" : state_of(process) == 'T' ? "is stopped" : "is busy";
  return fmt::format("rank {} (last seen {}, process {} {})", rank, place, process, state);
}

bool HeartbeatPage::claim_report() noexcept {
  int64_t nobody = 0;
  return page_->reporter.compare_exchange_strong(nobody, getpid());
}

Watchdog::Watchdog(HeartbeatPage& heartbeat, double timeout_s) : heartbeat_(heartbeat), timeout_s_(timeout_s) {
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
  watchdog_.heartbeat_.begin_wait();
}

Watchdog::Wait::~Wait() {
  const std::lock_guard guard(watchdog_.mutex_);
  watchdog_.waits_for_ = nullptr;
  watchdog_.heartbeat_.end_wait();
}

void Watchdog::set_step(int64_t step) {
  const std::lock_guard guard(mutex_);
  step_ = step;
  heartbeat_.set_step(step);
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
  const bool has_other_nodes = std::find(elsewhere_.begin(), elsewhere_.end(), true) != elsewhere_.end();
  std::string ranks;
  for (const int rank : heartbeat_.missing(elsewhere_)) {
    ranks += (ranks.empty() ? "" : ", ") + heartbeat_.describe(rank);
  }
  if (!ranks.empty()) return ranks;
  return has_other_nodes ? "none on this node, so a rank of another node or the network between them"
                         : "none, all ranks are alive and have reached this wait";
}

void Watchdog::give_up(const std::string& reason) {
  const std::string place = step_ == 0 ? std::string() : fmt::format(", step {}", step_);
  // The other ranks of the node time out within moments and would write the same.
  if (heartbeat_.claim_report())
    train::write_notice(fmt::format("heed: rank {}{}: {}\n", heartbeat_.rank(), place, reason));
  heartbeat_.unlink();  // before the rendezvous is complete, no other code unlinks it
  // In a separate thread: ncclCommAbort itself may block until captured graphs are destroyed, or for other ranks.
  if (action_) {
    std::thread(action_).detach();
    usleep(500'000);
  }
  _exit(7);
}

}  // namespace heed::comm
