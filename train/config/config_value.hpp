// Values of the config: a parsed value before it is converted to the type of its key, and the formats of these types,
// which read, print and describe it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace heed::train {

// The name of a type that no key accepts: "a table", "a date or a time".
struct OtherValue {
  std::string name;
};

struct ConfigValue {
  std::variant<OtherValue, bool, int64_t, double, std::string, std::vector<ConfigValue>> data;
};

// For an error message: the string "1e-3", the integer 0, the list [1, true].
std::string describe_value(const ConfigValue& value);

// As TOML. Throws ConfigError for OtherValue.
std::string to_toml(const ConfigValue& value);

// A TOML string in double quotes, always on one line.
std::string quote(std::string_view text);

// Truncates text that is too long for an error message, and escapes bytes that are not UTF-8 as \xE9.
std::string shorten(const std::string& text);

bool is_utf8(std::string_view text);

// A TOML float: the shortest decimal that parses to the same bits.
std::string format_number(double value);

// "a", "b" or "c"
std::string join_alternatives(const std::vector<std::string>& texts);

template <class T>
struct ValueFormat {
  std::string allowed;                                       // completes "it must be …"
  std::function<std::optional<T>(const ConfigValue&)> read;  // nullopt: another type, or not allowed
  std::function<std::string(const T&)> write;                // as TOML
  bool is_text = false;                                      // a string in TOML
  std::vector<std::string> choices = {};                     // as TOML: all values, of a type that has only a few
};

// Ranges include both ends. The integer ranges are small enough for a double to represent every value exactly.
ValueFormat<int64_t> integer(int64_t low, int64_t high);
ValueFormat<double> number(double low, double high);  // also accepts integers; rejects NaN and infinity
ValueFormat<double> number_or_zero(double low, double high);
ValueFormat<uint32_t> seed_number();
ValueFormat<bool> boolean();
ValueFormat<std::string> text();
// A string of one or more of these letters, at most `most` of them.
ValueFormat<std::string> letters(const std::string& allowed, size_t most);
// Its read() expands a leading ~ in a path. It throws what expand_home() throws, and ConfigError if the home directory
// is not plain UTF-8 text.
ValueFormat<std::string> path_name();

// Replaces the "~" of the path "~" or "~/…" by $HOME (without HOME: the home directory in the user database). Every
// other path is returned unchanged, also "./~". Throws ConfigError, one line, for "~name", which only a shell expands,
// and if there is no home directory.
std::string expand_home(const std::string& path);

template <class Enum>
ValueFormat<Enum> choice(const std::vector<std::pair<std::string, Enum>>& names) {
  ValueFormat<Enum> format;
  std::vector<std::string> quoted;
  for (const auto& [name, value] : names) {
    quoted.push_back(quote(name));
  }
  format.allowed = join_alternatives(quoted);
  format.choices = quoted;
  format.read = [names](const ConfigValue& value) -> std::optional<Enum> {
    const auto* text = std::get_if<std::string>(&value.data);
    for (const auto& [name, result] : names) {
      if (text && *text == name) {
        return result;
      }
    }
    return std::nullopt;
  };
  format.write = [names](const Enum& value) {
    return quote(std::find_if(names.begin(), names.end(), [&](auto& entry) { return entry.second == value; })->first);
  };
  format.is_text = true;
  return format;
}

template <class T>
ValueFormat<std::vector<T>> list(const ValueFormat<T>& element) {
  ValueFormat<std::vector<T>> format;
  format.allowed = "a list, each element " + element.allowed;
  format.read = [element](const ConfigValue& value) -> std::optional<std::vector<T>> {
    const auto* elements = std::get_if<std::vector<ConfigValue>>(&value.data);
    if (!elements) {
      return std::nullopt;
    }
    std::vector<T> result;
    for (const ConfigValue& one : *elements) {
      const std::optional<T> read = element.read(one);
      if (!read) {
        return std::nullopt;
      }
      result.push_back(*read);
    }
    return result;
  };
  format.write = [element](const std::vector<T>& values) {
    std::vector<std::string> texts;
    std::transform(values.begin(), values.end(), std::back_inserter(texts), element.write);
    return fmt::format("[{}]", fmt::join(texts, ", "));
  };
  return format;
}

}  // namespace heed::train
