// Runs a piece of a test in a process of its own, for what would change or end this one: limits, mounts, kills.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <functional>
#include <string>
#include <utility>

namespace heed::test {

// Ends at once, without destructors and without the checks at exit that belong to the parent.
[[noreturn]] inline void end_process() {
  for (;;) ::kill(::getpid(), SIGKILL);
}

class ChildProcess {
 public:
  explicit ChildProcess(const std::function<std::string()>& run) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    process_ = ::fork();
    if (process_ == 0) {
      write_all(ends[1], outcome_of(run));
      end_process();
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~ChildProcess() {
    if (process_ > 0) result();
  }
  ChildProcess(ChildProcess&& other) noexcept
      : process_(std::exchange(other.process_, -1)), from_(std::exchange(other.from_, -1)) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t process() const { return process_; }

  // Waits for it. What `run` returned, the text of what it threw, or how the process ended before that.
  std::string result() {
    if (process_ < 0) return "no child process";
    std::string text;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(from_, part, sizeof(part))) > 0;) text.append(part, static_cast<size_t>(got));
    ::close(from_);
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    const bool as_planned = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    return as_planned ? text : text + "[the child process ended with status " + std::to_string(status) + "]";
  }

 private:
  static std::string outcome_of(const std::function<std::string()>& run) {
    try {
      return run();
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  static void write_all(int to, const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(to, text.data() + done, text.size() - done);
      if (written <= 0) break;
      done += static_cast<size_t>(written);
    }
  }

  pid_t process_ = -1;
  int from_ = -1;
};

inline std::string in_child(const std::function<std::string()>& run) { return ChildProcess(run).result(); }

}  // namespace heed::test
