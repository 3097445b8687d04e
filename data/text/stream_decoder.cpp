#include "data/text/stream_decoder.hpp"

#include <utility>

#include "data/io/utf8.hpp"

namespace heed::data {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

std::string StreamDecoder::push(int32_t id) {
  open_ += tokenizer_.bytes(id);
  std::string text;
  std::string_view rest = open_;
  while (!rest.empty()) {
    const Utf8Step step = next_character(rest);
    if (step.status == Utf8Status::incomplete) break;
    append_utf8(text, step.status == Utf8Status::valid ? step.code_point : kReplacement);
    rest.remove_prefix(step.length);
  }
  open_ = std::string(rest);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  if (!std::exchange(open_, {}).empty()) append_utf8(text, kReplacement);
  return text;
}

}  // namespace heed::data
