// Parses TOML text into a list of entries; the only module that uses the TOML library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/core/check.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {

// The header of a top-level table (is_table, empty key), or one key with its value (empty table: a key before any
// table).
struct TomlEntry {
  std::string table;
  std::string key;
  bool is_table = false;
  ConfigValue value;
  int64_t line = 0;
  int64_t column = 0;
};

// A TOML syntax error and its position.
struct TomlSyntaxError : Error {
  using Error::Error;
  int64_t line = 0;
  int64_t column = 0;
  // The key that was being parsed and its table; empty if unknown.
  std::string table;
  std::string key;
};

// Returns the entries in the order of the text. Throws TomlSyntaxError.
std::vector<TomlEntry> read_toml(const std::string& text);

// A value and the names of all tables around it: {"grid", "model", "num_heads"}. An element of an array of tables adds
// its index: {"arm", "0", "name"}. An empty table has OtherValue.
struct TomlValue {
  std::vector<std::string> path;
  ConfigValue value;
  int64_t line = 0;
  int64_t column = 0;
};

// Returns the values of nested tables in the order of the text. Throws TomlSyntaxError.
std::vector<TomlValue> read_nested_toml(const std::string& text);

// Parses a single value. Returns nullopt if the text is not exactly one value.
std::optional<ConfigValue> read_toml_value(std::string_view text);

}  // namespace heed::train
