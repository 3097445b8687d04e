#include "train/comm/heartbeat_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"

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
  mine.update = mine.waits = mine.is_waiting = 0;
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

void HeartbeatPage::set_update(int64_t update) noexcept { slot(rank_).update = update; }
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
  const int64_t update = slot(rank).update;
  const std::string place = update == 0 ? std::string("before the first step") : fmt::format("in step {}", update);
  const char* state = !is_alive(process) ? "has ended" : state_of(process) == 'T' ? "is stopped" : "is busy";
  return fmt::format("rank {} (last seen {}, process {} {})", rank, place, process, state);
}

bool HeartbeatPage::claim_report() noexcept {
  int64_t nobody = 0;
  return page_->reporter.compare_exchange_strong(nobody, getpid());
}

}  // namespace heed::comm
