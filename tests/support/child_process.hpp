// Runs a piece of a test in a process of its own, for what would change or end this one: limits, mounts, kills.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <functional>
#include <string>

namespace heed::test {

// Ends at once, without destructors and without the checks at exit that belong to the parent.
[[noreturn]] inline void end_process() {
  for (;;) ::kill(::getpid(), SIGKILL);
}

// What `run` returned, the text of what it threw, or how the process ended before that.
inline std::string in_child(const std::function<std::string()>& run) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child < 0) return "no child process";
  if (child == 0) {
    std::string text;
    try {
      text = run();
    } catch (const std::exception& error) {
      text = error.what();
    }
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(ends[1], text.data() + done, text.size() - done);
      if (written <= 0) break;
      done += static_cast<size_t>(written);
    }
    end_process();
  }
  ::close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], part, sizeof(part))) > 0;) text.append(part, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool as_planned = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return as_planned ? text : text + "[the child process ended with status " + std::to_string(status) + "]";
}

}  // namespace heed::test
