// One run of a sweep as a separate process: `heed train`. A run that diverges, runs out of memory or crashes then
// ends alone, and its error is a result.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heed::train {

struct ChildOptions {
  int keep_open = -1;                                            // a descriptor that the process inherits
  std::vector<std::string> arguments;                            // of heed, without its name
  std::vector<std::pair<std::string, std::string>> environment;  // variables that differ from those of this process
  std::filesystem::path log;                                     // gets stdout and stderr, appended
};

// A started process. It gets SIGKILL from the system when this process ends, however it ends. It is in another process
// group: Ctrl-C reaches only this process, which passes it on.
class ChildRun {
 public:
  // Starts this program again. Throws Error with the reason.
  explicit ChildRun(const ChildOptions& options);
  ~ChildRun();  // if the process has not ended: stops it by SIGTERM, so that it saves, and waits for its end
  ChildRun(ChildRun&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  ChildRun& operator=(ChildRun&& other) noexcept {
    std::swap(process_, other.process_);
    return *this;
  }

  // The exit code once the process has ended, 128 + the signal that killed it; nullopt while it runs.
  std::optional<int> poll();
  void send(int signal) const;

 private:
  pid_t process_ = 0;
};

}  // namespace heed::train
