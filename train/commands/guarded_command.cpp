#include "train/commands/guarded_command.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <thread>

#include "autograd/core/check.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/launch.hpp"
#include "train/output/output.hpp"

namespace heed::train {
namespace {

std::string as_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto code = static_cast<uint8_t>(c);
    line += code < 0x20 || code == 0x7F ? fmt::format("\\u{:04X}", code) : std::string(1, c);
  }
  return line;
}

}  // namespace

int print_error(const std::string& text, int code) {
  write_notice(fmt::format("heed: {}\n", as_one_line(text)));
  return code;
}

int guarded(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::filesystem::filesystem_error& error) {
    return print_error(fmt::format("the path \"{}\" cannot be used: {}; is the current folder still there?",
                                   error.path1().string(), error.code().message()),
                       2);
  } catch (const std::exception& error) {
    return print_error(comm::error_text(error), comm::exit_code(error));
  }
}

int run_alone(const std::string& command, const std::function<int()>& action) {
  return guarded([&] {
    const comm::Launch launch = comm::find_launch();
    if (launch.size == 1) return action();
    if (launch.rank > 0) {
      // A launcher ends all processes when the first one fails, which must not happen before rank 0 has printed the
      // error.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return 2;
    }
    throw ConfigError(fmt::format("{} runs as one process, but {} has started {}: start it without {}{}", command,
                                  launch.launcher, launch.size, launch.launcher,
                                  launch.by_mpi ? "" : ", or unset RANK and WORLD_SIZE"));
  });
}

}  // namespace heed::train
