// A parsed value of a file or an argument, before it is converted to the type of its key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// A TOML string in double quotes, always on one line.
std::string quote(std::string_view text);

// Truncates text that is too long for an error message, and escapes bytes that are not UTF-8 as \xE9.
std::string shorten(const std::string& text);

bool is_utf8(std::string_view text);

// A TOML float: the shortest decimal that parses to the same bits.
std::string format_number(double value);

// "a", "b" or "c"
std::string join_alternatives(const std::vector<std::string>& texts);

}  // namespace heed::train
