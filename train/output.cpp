#include "train/output.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "autograd/core/check.hpp"

namespace heed::train {

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw Error(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)));
}

void write_notice(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace heed::train
