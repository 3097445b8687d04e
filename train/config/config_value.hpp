// A value as it stands in a file or an argument, before its key says what it must be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace heed::train {

// What no key takes, in words: "a table", "a date or a time".
struct OtherValue {
  std::string name;
};

struct ConfigValue {
  std::variant<OtherValue, bool, int64_t, double, std::string, std::vector<ConfigValue>> data;
};

// For an error text: the string "1e-3", the integer 0, the list [1, true].
std::string describe_value(const ConfigValue& value);

// A TOML string in double quotes, on one line whatever it holds.
std::string quote(std::string_view text);

// Cuts what is too long for an error text, and shows bytes that are not UTF-8 as \xE9.
std::string shorten(const std::string& text);

bool is_utf8(std::string_view text);

// A TOML float: the shortest decimal that reads back to the same bits.
std::string format_number(double value);

// "a", "b" or "c"
std::string join_alternatives(const std::vector<std::string>& texts);

}  // namespace heed::train
