#include "train/plot/python.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "data/io/descriptor.hpp"

extern char** environ;

namespace heed::train {
namespace {

using data::retry_interrupted;

void require_success(bool success) { require<PythonError>(success, "cannot run python3: {}", std::strerror(errno)); }

// A file in memory. Unlike a pipe it never blocks, so that nothing has to be read while the script still runs.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : file_(::memfd_create("heed", MFD_CLOEXEC)) {
    require_success(file_.number() >= 0);
    for (size_t done = 0; done < content.size();) {
      const ssize_t count = retry_interrupted(
          [&] { return ::pwrite(number(), content.data() + done, content.size() - done, static_cast<off_t>(done)); });
      require_success(count > 0);
      done += static_cast<size_t>(count);
    }
  }

  int number() const { return file_.number(); }

  std::string read() const {
    std::string content;
    char part[65536];
    while (true) {
      const ssize_t count =
          retry_interrupted([&] { return ::pread(number(), part, sizeof(part), static_cast<off_t>(content.size())); });
      require_success(count >= 0);
      if (count == 0) return content;
      content.append(part, static_cast<size_t>(count));
    }
  }

 private:
  data::Descriptor file_;
};

// While it exists, an ended child has an exit code, also if the parent process made this one ignore SIGCHLD.
class KeepExitCodes {
 public:
  KeepExitCodes() : before_(std::signal(SIGCHLD, SIG_DFL)) {}
  ~KeepExitCodes() { std::signal(SIGCHLD, before_); }
  KeepExitCodes(const KeepExitCodes&) = delete;
  KeepExitCodes& operator=(const KeepExitCodes&) = delete;

 private:
  void (*before_)(int);
};

pid_t start(std::vector<std::string> arguments, const MemoryFile& input, const MemoryFile& output,
            const MemoryFile& errors) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t streams;
  ::posix_spawn_file_actions_init(&streams);
  ::posix_spawn_file_actions_adddup2(&streams, input.number(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&streams, output.number(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&streams, errors.number(), STDERR_FILENO);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, pointers[0], &streams, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&streams);
  errno = error;
  require_success(error == 0);
  return process;
}

// The programs named python3 in the folders of PATH, in their order.
std::vector<std::string> python_programs() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::vector<std::string> programs;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (folder.empty() ? "." : folder) + "/python3";
    if (::access(program.c_str(), X_OK) == 0) programs.push_back(program);
  }
  return programs;
}

// Returns the status of waitpid().
int wait_for(pid_t process) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  int status = 0;
  while (true) {
    const pid_t ended = retry_interrupted([&] { return ::waitpid(process, &status, WNOHANG); });
    require_success(ended >= 0);
    if (ended > 0) return status;
    if (std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(process, SIGKILL);
  retry_interrupted([&] { return ::waitpid(process, &status, 0); });
  throw PythonError("python3 took more than a minute");
}

// The last line of a traceback names the error.
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "without a message";
  const size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

}  // namespace

std::string run_python(const std::string& script, const std::vector<std::string>& arguments, const std::string& input) {
  const KeepExitCodes keep_exit_codes;
  const std::vector<std::string> programs = python_programs();
  require<PythonError>(!programs.empty(), "python3 is not on PATH (apt install python3-matplotlib)");
  for (const std::string& program : programs) {
    const MemoryFile in(input), out(""), errors("");
    std::vector<std::string> all{program, "-c", script};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const int status = wait_for(start(all, in, out, errors));
    require<PythonError>(WIFEXITED(status), "python3 was ended by signal {}", WTERMSIG(status));
    if (WEXITSTATUS(status) == kNoMatplotlib) continue;
    require<PythonError>(WEXITSTATUS(status) == 0, "python3 failed: {}", last_line(errors.read()));
    return out.read();
  }
  throw PythonError("python3 has no matplotlib (apt install python3-matplotlib, or pip install matplotlib)");
}

}  // namespace heed::train
