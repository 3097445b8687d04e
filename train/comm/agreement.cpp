#include "train/comm/agreement.hpp"

#include <algorithm>
#include <new>
#include <sstream>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"

namespace heed::comm {
namespace {

// Each distinct error text once, with the lowest rank that reported it. If all ranks report the same text, that text
// alone.
std::string joined(const std::vector<std::string>& texts, const std::vector<int>& codes) {
  const bool all_say_it = std::all_of(texts.begin(), texts.end(), [&](const auto& text) { return text == texts[0]; });
  if (all_say_it) return texts[0];
  std::string result;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (codes[rank] == 0 || std::find(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(rank), texts[rank]) !=
                                texts.begin() + static_cast<std::ptrdiff_t>(rank)) {
      continue;
    }
    result += fmt::format("{}rank {}: {}", result.empty() ? "" : "; ", rank, texts[rank]);
  }
  return result;
}

std::string first_difference(const std::string& a, const std::string& b, int other) {
  std::istringstream lines_a(a), lines_b(b);
  std::string line_a, line_b;
  while (true) {
    const bool has_a = static_cast<bool>(std::getline(lines_a, line_a));
    const bool has_b = static_cast<bool>(std::getline(lines_b, line_b));
    if (!has_a) line_a = "nothing";
    if (!has_b) line_b = "nothing";
    if (line_a != line_b) return fmt::format("rank 0 has `{}`, rank {} has `{}`", line_a, other, line_b);
    if (!has_a && !has_b) return fmt::format("rank 0 and rank {} differ", other);
  }
}

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const std::length_error*>(&error) != nullptr;
}

}  // namespace

std::string error_text(const std::exception& error) {
  if (!is_out_of_memory(error)) return error.what();
  return out_of_memory(
      {.bytes = 0, .what = "this command", .advice = "free memory, raise the limit or do less at a time"});
}

int exit_code(const std::exception& error) {
  const auto is = [&]<class E>(E*) { return dynamic_cast<const E*>(&error) != nullptr; };
  if (is(static_cast<ConfigError*>(nullptr))) return 2;
  if (is(static_cast<DataError*>(nullptr))) return 3;
  if (is(static_cast<CheckpointError*>(nullptr))) return 4;
  if (is(static_cast<DeviceError*>(nullptr)) || is(static_cast<MemoryError*>(nullptr))) return 5;
  if (is_out_of_memory(error)) return 5;
  if (is(static_cast<DivergedError*>(nullptr))) return 6;
  if (is(static_cast<CommunicationError*>(nullptr))) return 7;
  return 1;
}

void check_on_all_ranks(ProcessGroup& ranks, const std::function<void()>& f) {
  if (ranks.size() == 1) return f();
  int code = 0;
  std::string text;
  try {
    f();
  } catch (const std::exception& error) {
    code = exit_code(error);
    text = error_text(error);
  }
  const std::vector<int> codes = ranks.gather(code);
  const auto failed = std::find_if(codes.begin(), codes.end(), [](int one) { return one != 0; });
  if (failed == codes.end()) return;
  const std::string all = joined(ranks.gather_texts(text), codes);
  throw CollectiveError(ranks.is_root() ? all : "", *failed);
}

void require_same_on_all_ranks(ProcessGroup& ranks, const std::string& what, const std::string& mine) {
  if (ranks.size() == 1) return;
  const std::vector<std::string> texts = ranks.gather_texts(mine);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::string difference = first_difference(texts[0], texts[rank], static_cast<int>(rank));
    const std::string text = fmt::format("all ranks must have the same {}: {}", what, difference);
    throw CollectiveError(ranks.is_root() ? text : "", 7);
  }
}

}  // namespace heed::comm
