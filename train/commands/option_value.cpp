#include "train/commands/option_value.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "autograd/core/check.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {
namespace {

// Error messages show a number as it is; anything else is quoted, since it may contain blanks and control characters.
std::string shown(const std::string& text) {
  const bool is_plain = !text.empty() && text.find_first_not_of("0123456789.-") == std::string::npos;
  return shorten(is_plain ? text : quote(text));
}

// Parses all of text as a T; returns false if that fails or the value is out of range.
template <class T>
bool read_whole(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && last == end;
}

}  // namespace

int64_t integer_option(const std::string& option, const std::string& text, const IntegerRange& range) {
  int64_t value = 0;
  const bool fits = read_whole(text, value) && range.low <= value && value <= range.high;
  require<ConfigError>(fits, "{} is {}, it must be an integer from {} to {}", option, shown(text), range.low,
                       range.high);
  return value;
}

double number_option(const std::string& option, const std::string& text, const NumberRange& range) {
  double value = 0;
  // from_chars also accepts the names of NaN and infinity.
  const bool fits = text.find_first_not_of("0123456789.-+eE") == std::string::npos && read_whole(text, value) &&
                    (range.above_low ? range.low < value : range.low <= value) && value <= range.high;
  require<ConfigError>(fits, "{} is {}, it must be a number {} {} {} {}", option, shown(text),
                       range.above_low ? "above" : "from", range.low, range.above_low ? "and at most" : "to",
                       range.high);
  return value;
}

size_t choice_option(const std::string& option, const std::string& text, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  require<ConfigError>(found != names.end(), "{} is {}, it must be {}", option, shorten(quote(text)),
                       join_alternatives(names));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace heed::train
