#include "train/config/config_value.hpp"

#include <fmt/format.h>

#include "data/io/utf8.hpp"

namespace heed::train {
namespace {

// Longer than all but unusual values and names, short enough for one line.
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

std::string shorten(const std::string& text) {
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const data::Utf8Step step = data::next_character(rest);
    const std::string_view bytes = rest.substr(0, static_cast<std::size_t>(step.length));
    std::string next(bytes);
    if (step.status != data::Utf8Status::valid) {
      next.clear();
      for (const char c : bytes) next += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    }
    if (shown.size() + next.size() > kLongestShown) return shown + "…";
    shown += next;
    rest.remove_prefix(bytes.size());
  }
  return shown;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const data::Utf8Step step = data::next_character(text);
    if (step.status != data::Utf8Status::valid) return false;
    text.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return true;
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
