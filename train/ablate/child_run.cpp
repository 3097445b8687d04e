#include "train/ablate/child_run.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/descriptor.hpp"

extern char** environ;

namespace heed::train {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    bool is_kept = true;
    for (const auto& [name, value] : changes) is_kept = is_kept && !text.starts_with(name + "=");
    if (is_kept) variables.push_back(text);
  }
  for (const auto& [name, value] : changes) variables.push_back(name + "=" + value);
  return variables;
}

void use_all_processors() {
  cpu_set_t all;
  std::memset(&all, 0xFF, sizeof(all));  // the system takes those that this process may use
  ::sched_setaffinity(0, sizeof(all), &all);
}

// Between fork() and execve(): only functions that are safe there.
[[noreturn]] void become(pid_t parent, int log, int keep_open, char** arguments, char** variables) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it ended in between
  ::setpgid(0, 0);
  // OpenMP has bound this thread to one processor; the runs would all inherit that.
  if (std::getenv("OMP_PROC_BIND") != nullptr || std::getenv("GOMP_CPU_AFFINITY") != nullptr) use_all_processors();
  if (keep_open >= 0) ::fcntl(keep_open, F_SETFD, 0);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve("/proc/self/exe", arguments, variables);
  ::_exit(127);
}

}  // namespace

ChildRun::ChildRun(const ChildOptions& options) {
  std::vector<std::string> arguments{"heed"};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> variables = environment_with(options.environment);
  const std::vector<char*> argument_pointers = pointers(arguments), variable_pointers = pointers(variables);
  const int log = ::open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  require<Error>(log >= 0, "cannot open {}: {}", options.log.string(), std::strerror(errno));
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0)
    become(parent, log, options.keep_open, const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(variable_pointers.data()));
  const int error = errno;
  ::close(log);
  require<Error>(process_ > 0, "cannot start heed train: {}", std::strerror(error));
}

ChildRun::~ChildRun() {
  if (process_ == 0) return;
  ::kill(process_, SIGTERM);
  data::retry_interrupted([&] { return ::waitpid(process_, nullptr, 0); });
}

std::optional<int> ChildRun::poll() {
  int status = 0;
  const pid_t ended = data::retry_interrupted([&] { return ::waitpid(process_, &status, WNOHANG); });
  require<Error>(ended >= 0, "a run has no exit code: {}", std::strerror(errno));
  if (ended == 0) return std::nullopt;
  process_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ChildRun::send(int signal) const { ::kill(process_, signal); }

}  // namespace heed::train
