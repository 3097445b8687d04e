#include "data/text/word_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/io/quoted_start.hpp"

namespace heed::data {

namespace {

// Unicode's White_Space, as members of a class.
constexpr std::string_view kWhiteSpace =
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

// Translates an expression for PCRE2, and refuses what may mean something else there.
class Translator {
 public:
  explicit Translator(std::string_view source) : source_(source) {}

  std::string translate() {
    while (!done()) {
      if (starts("\\")) {
        escape(false);
      } else if (starts("[")) {
        character_class();
      } else if (starts("(")) {
        group();
      } else {
        if (starts(".") || starts("^") || starts("$")) refuse(1, "match a character by a class");
        if (starts("{")) {
          repetition();
        } else {
          copy(1);
        }
      }
    }
    return std::move(result_);
  }

 private:
  bool done() const { return at_ == source_.size(); }
  bool starts(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void copy(size_t count) {
    result_ += source_.substr(at_, count);
    at_ += count;
  }
  [[noreturn]] void refuse(size_t count, const char* advice) const {
    throw DataError(fmt::format("the regular expression {} has {} at byte {}, which heed does not read: {}",
                                quoted_start(source_), quoted_start(source_.substr(at_, count)), at_, advice));
  }

  void escape(bool in_class) {
    const char c = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    if (c == 's' || (c == 'S' && !in_class)) {
      result_ += in_class ? std::string(kWhiteSpace) : fmt::format("[{}{}]", c == 'S' ? "^" : "", kWhiteSpace);
      at_ += 2;
      return;
    }
    if (c == 'p' || c == 'P') {
      const size_t end = source_.find('}', at_);
      const bool is_name = source_.substr(at_ + 2).starts_with('{') && end != std::string_view::npos;
      if (!is_name) refuse(3, "name a property in braces, as \\p{L}");
      copy(end + 1 - at_);
      return;
    }
    constexpr std::string_view kKnown = "rntfdD!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ";
    if (c == '\0' || kKnown.find(c) == std::string_view::npos)
      refuse(2, "the escapes are \\s \\S \\d \\D \\p{…} \\P{…} \\r \\n \\t \\f and punctuation");
    copy(2);
  }

  void character_class() {
    copy(starts("[^") ? 2 : 1);
    if (starts("]")) refuse(1, "escape it");
    while (!done() && !starts("]")) {
      if (starts("[") || starts("&&") || starts("--") || starts("~~")) refuse(2, "escape it, or write one class");
      if (starts("\\")) {
        escape(true);
      } else {
        copy(1);
      }
    }
    if (!done()) copy(1);
  }

  void group() {
    if (starts("(*")) refuse(2, "escape it");
    if (!starts("(?")) return copy(1);
    for (const std::string_view begin : {"(?:", "(?i:", "(?=", "(?!"}) {
      if (starts(begin)) return copy(begin.size());
    }
    refuse(3, "the groups are (…), (?:…), (?i:…), (?=…) and (?!…)");
  }

  // {n}, {n,} or {n,m}. A + after it would be possessive for PCRE2 and a second repetition for Oniguruma.
  void repetition() {
    const size_t end = source_.find('}', at_);
    const bool is_known = end != std::string_view::npos && end > at_ + 1 && source_[at_ + 1] != ',' &&
                          source_.substr(at_ + 1, end - at_ - 1).find_first_not_of("0123456789,") == std::string::npos;
    if (!is_known) refuse(2, "escape it, or write {n}, {n,} or {n,m}");
    copy(end + 1 - at_);
    if (starts("+")) refuse(1, "leave it out");
  }

  std::string_view source_;
  std::string result_;
  size_t at_ = 0;
};

std::string error_message(int number) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(number, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

// About a second for each match, and memory for a long one. The steps grow with the text, because a match of a long run
// of white space goes back over all of it.
constexpr uint64_t kMinMaxSteps = 20'000'000, kMaxStepsPerByte = 8;
constexpr uint32_t kMaxHeapKib = 64 * 1024;
constexpr size_t kSmallStack = size_t{64} << 10, kLargeStack = size_t{16} << 20;

}  // namespace

struct WordPattern::Code {
  std::unique_ptr<pcre2_code, FreeCode> pcre;
};

WordPattern::WordPattern(std::string source) : source_(std::move(source)), code_(std::make_unique<Code>()) {
  require<DataError>(static_cast<int64_t>(source_.size()) <= kMaxBytes,
                     "a regular expression has {} bytes, heed reads at most {}", source_.size(), kMaxBytes);
  const std::string translated = Translator(source_).translate();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->pcre.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  require<DataError>(code_->pcre != nullptr, "the regular expression {} is not one: {}", quoted_start(source_),
                     error_message(error));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code_->pcre.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  require<DataError>(matches_empty == 0, "the regular expression {} can match nothing at all, it must match words",
                     quoted_start(source_));
  // Without a compiler for this processor, PCRE2 interprets the expression.
  pcre2_jit_compile(code_->pcre.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
}

WordPattern::~WordPattern() = default;
WordPattern::WordPattern(WordPattern&&) noexcept = default;
WordPattern& WordPattern::operator=(WordPattern&&) noexcept = default;

struct WordPattern::Search::Memory {
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::unique_ptr<pcre2_match_data, FreeData> data;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack;
};

WordPattern::Search::Search(const WordPattern& pattern, std::string_view text)
    : pattern_(pattern), text_(text), memory_(std::make_unique<Memory>()) {
  memory_->context.reset(pcre2_match_context_create(nullptr));
  memory_->data.reset(pcre2_match_data_create_from_pattern(pattern.code_->pcre.get(), nullptr));
  memory_->stack.reset(pcre2_jit_stack_create(kSmallStack, kLargeStack, nullptr));
  if (!memory_->context || !memory_->data || !memory_->stack) throw std::bad_alloc();
  const uint64_t steps = std::clamp<uint64_t>(kMaxStepsPerByte * text.size(), kMinMaxSteps, UINT32_MAX);
  pcre2_set_match_limit(memory_->context.get(), static_cast<uint32_t>(steps));
  pcre2_set_heap_limit(memory_->context.get(), kMaxHeapKib);
  pcre2_jit_stack_assign(memory_->context.get(), nullptr, memory_->stack.get());
}

WordPattern::Search::~Search() = default;

WordPattern::Search::Match WordPattern::Search::match(int64_t from, bool is_prefix) {
  const int result =
      pcre2_match(pattern_.code_->pcre.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                  static_cast<PCRE2_SIZE>(from), PCRE2_NO_UTF_CHECK | (is_prefix ? PCRE2_PARTIAL_HARD : 0u),
                  memory_->data.get(), memory_->context.get());
  if (result == PCRE2_ERROR_NOMATCH) return {};
  if (result == PCRE2_ERROR_PARTIAL) return {Match::Status::partial};
  if (result < 0) {
    throw DataError(fmt::format("the regular expression {} takes too long for a text of {} bytes: {}",
                                quoted_start(pattern_.source_), text_.size(), error_message(result)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory_->data.get());
  return {Match::Status::found, static_cast<int64_t>(bounds[0]), static_cast<int64_t>(bounds[1])};
}

}  // namespace heed::data
