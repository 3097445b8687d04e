#include "train/config/config_value.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "autograd/core/check.hpp"
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

// The value if its type is T and passes(value) is true.
template <class T, class Passes>
std::optional<T> get_if_passing(const ConfigValue& value, Passes passes) {
  const T* held = std::get_if<T>(&value.data);
  return held && passes(*held) ? std::optional<T>(*held) : std::nullopt;
}

// Whether TOML can represent it and an error message can show it on one line.
bool is_plain(const std::string& text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  return is_utf8(text) && std::none_of(text.begin(), text.end(), is_control);
}

// Empty if there is none.
std::string home_folder() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return home;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

}  // namespace

std::string to_toml(const ConfigValue& value) {
  require<ConfigError>(!std::holds_alternative<OtherValue>(value.data), "{} is not the value of a key",
                       value_text(value));
  return value_text(value);
}

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

ValueFormat<int64_t> integer(int64_t low, int64_t high) {
  const auto read = [=](const ConfigValue& value) {
    return get_if_passing<int64_t>(value, [=](int64_t held) { return low <= held && held <= high; });
  };
  const auto write = [](const int64_t& value) { return fmt::format("{}", value); };
  return {fmt::format("an integer from {} to {}", low, high), read, write};
}

ValueFormat<double> number(double low, double high) {
  const auto read = [=](const ConfigValue& value) {
    const auto* whole = std::get_if<int64_t>(&value.data);
    const ConfigValue widened = whole ? ConfigValue{static_cast<double>(*whole)} : value;
    return get_if_passing<double>(widened, [=](double held) { return low <= held && held <= high; });
  };
  return {fmt::format("a number from {} to {}", low, high), read, format_number};
}

ValueFormat<double> number_or_zero(double low, double high) {
  const ValueFormat<double> positive = number(low, high);
  const auto read = [positive, zero = number(0, 0)](const ConfigValue& value) {
    const std::optional<double> result = positive.read(value);
    return result ? result : zero.read(value);
  };
  return {positive.allowed + ", or 0", read, format_number};
}

ValueFormat<uint32_t> seed_number() {
  const ValueFormat<int64_t> wide = integer(0, std::numeric_limits<uint32_t>::max());
  const auto read = [wide](const ConfigValue& value) -> std::optional<uint32_t> {
    const std::optional<int64_t> seed = wide.read(value);
    return seed ? std::optional(static_cast<uint32_t>(*seed)) : std::nullopt;
  };
  return {wide.allowed, read, [](const uint32_t& value) { return fmt::format("{}", value); }};
}

ValueFormat<bool> boolean() {
  const auto read = [](const ConfigValue& value) { return get_if_passing<bool>(value, [](bool) { return true; }); };
  return {"true or false", read, [](const bool& value) { return value ? "true" : "false"; }, false, {"true", "false"}};
}

ValueFormat<std::string> text() {
  const auto read = [](const ConfigValue& value) { return get_if_passing<std::string>(value, is_utf8); };
  return {"a string in UTF-8", read, [](const std::string& value) { return quote(value); }, true};
}

ValueFormat<std::string> letters(const std::string& allowed, size_t most) {
  const auto read = [=](const ConfigValue& value) {
    return get_if_passing<std::string>(value, [&](const std::string& held) {
      return !held.empty() && held.size() <= most && held.find_first_not_of(allowed) == std::string::npos;
    });
  };
  return {fmt::format("a string of 1 to {} letters {}", most, fmt::join(allowed, " or ")), read,
          [](const std::string& value) { return quote(value); }, true};
}

ValueFormat<std::string> path_name() {
  const auto read = [](const ConfigValue& value) {
    std::optional<std::string> path = get_if_passing<std::string>(value, is_plain);
    if (!path) return path;
    path = expand_home(*path);
    require<ConfigError>(is_plain(*path),
                         "the home folder {} is not UTF-8 text without control characters: write a path without ~",
                         shorten(quote(*path)));
    return path;
  };
  return {"a string in UTF-8 without control characters", read, [](const std::string& value) { return quote(value); },
          true};
}

std::string expand_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  require<ConfigError>(
      path.size() == 1 || path[1] == '/',
      "{} begins with ~ and a name, which is not expanded: write the whole path, or {} for a file with "
      "a ~ in its name",
      shorten(quote(path)), shorten(quote("./" + path)));
  const std::string home = home_folder();
  require<ConfigError>(
      !home.empty(),
      "{} begins with ~, but HOME is not set and the user has no home folder: write the whole path, or "
      "{} for a folder named ~",
      shorten(quote(path)), shorten(quote("./" + path)));
  return home + path.substr(1);
}

}  // namespace heed::train
