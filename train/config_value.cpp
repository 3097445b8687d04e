#include "train/config_value.hpp"

#include <fmt/format.h>

#include "data/utf8.hpp"

namespace heed::train {
namespace {

// Longer than all but odd values and names, short enough for one line.
constexpr std::size_t kLongestShown = 100;

std::string value_text(const ConfigValue& value);

struct ValueText {
  std::string operator()(const OtherValue& other) const { return other.name; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return format_number(value); }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(const std::vector<ConfigValue>& list) const {
    std::string text = "[";
    for (const ConfigValue& element : list) {
      text += (text.size() > 1 ? ", " : "") + value_text(element);
    }
    return text + "]";
  }
};

std::string value_text(const ConfigValue& value) { return std::visit(ValueText{}, value.data); }

}  // namespace

std::string describe_value(const ConfigValue& value) {
  static constexpr const char* kKinds[] = {"",         "the boolean ", "the integer ", "the number ", "the string ",
                                           "the list "};
  static_assert(std::size(kKinds) == std::variant_size_v<decltype(value.data)>);
  return kKinds[value.data.index()] + shorten(value_text(value));
}

std::string shorten(std::string text) {
  if (text.size() <= kLongestShown) {
    return text;
  }
  std::size_t end = kLongestShown;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {  // not inside a character of UTF-8
    --end;
  }
  return text.substr(0, end) + "…";
}

std::string quote(std::string_view text) { return data::quoted_text(text); }

std::string format_number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string join_alternatives(const std::vector<std::string>& texts) {
  std::string joined;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    joined += (i == 0 ? "" : i + 1 == texts.size() ? " or " : ", ") + texts[i];
  }
  return joined;
}

}  // namespace heed::train
