#include "train/output/output.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "autograd/core/check.hpp"
#include "data/io/utf8.hpp"

namespace heed::train {

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw Error(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)));
}

void write_progress(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void write_notice(std::string_view text) {
  const bool is_whole = text.ends_with('\n');
  if (is_whole) text.remove_suffix(1);
  write_progress(data::printable(text) + (is_whole ? "\n" : ""));
}

}  // namespace heed::train
