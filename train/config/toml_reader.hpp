// TOML text as a list of entries; the one place that knows the TOML library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/core/check.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {

// A table of the top level (is_table, no key), or one key with its value (no table: a key before any table).
struct TomlEntry {
  std::string table;
  std::string key;
  bool is_table = false;
  ConfigValue value;
  int64_t line = 0;
  int64_t column = 0;
};

// What is not TOML, and where.
struct TomlSyntaxError : Error {
  using Error::Error;
  int64_t line = 0;
  int64_t column = 0;
  // The key that was being read and its table; empty if unknown.
  std::string table;
  std::string key;
};

// The entries in the order of the text. Throws TomlSyntaxError.
std::vector<TomlEntry> read_toml(const std::string& text);

// One value alone; nothing if the text is not exactly one value.
std::optional<ConfigValue> read_toml_value(std::string_view text);

}  // namespace heed::train
