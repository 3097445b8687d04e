// How the types of config values are read, written and described.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config_value.hpp"

namespace heed::train {

template <class T>
struct ValueFormat {
  std::string allowed;                                       // completes "it must be …"
  std::function<std::optional<T>(const ConfigValue&)> read;  // nothing: of another type, or not allowed
  std::function<std::string(const T&)> write;                // as TOML
  bool is_text = false;                                      // a string in TOML
};

// Ranges include both ends, and are small enough for a double to hold every integer in them.
ValueFormat<int64_t> integer(int64_t low, int64_t high);
ValueFormat<double> number(double low, double high);  // takes integers, too; neither NaN nor infinity
ValueFormat<double> number_or_zero(double low, double high);
ValueFormat<uint32_t> seed_number();
ValueFormat<bool> boolean();
// Its read() gives paths with the home folder for a leading ~, and throws what expand_home() throws.
ValueFormat<std::string> path_name();

// A path that begins with "~/", or is "~", with $HOME for the "~" (without HOME: the home folder of the user database);
// every other path as it is, also "./~". Throws ConfigError, one line, for "~name", which only a shell expands, and if
// there is no home folder.
std::string expand_home(const std::string& path);

template <class Enum>
ValueFormat<Enum> choice(const std::vector<std::pair<std::string, Enum>>& names) {
  ValueFormat<Enum> format;
  std::vector<std::string> quoted;
  for (const auto& [name, value] : names) {
    quoted.push_back(quote(name));
  }
  format.allowed = join_alternatives(quoted);
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
