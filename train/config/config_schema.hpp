// The single table of all config keys. Parsing, overriding, checking, printing and the reference are derived from it: a
// new key is a member of a struct in config.hpp and an entry in config_schema.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {

struct KeySpec {
  std::string table;  // empty: the key stands before the first table
  std::string name;
  std::string meaning;
  std::string allowed;                                   // completes "it must be …"
  bool is_text = false;                                  // a string in TOML
  std::vector<std::string> choices;                      // as TOML: all values, of a key that has only a few
  std::function<bool(Config&, const ConfigValue&)> set;  // false: another type, or not allowed
  std::function<std::string(const Config&)> get;         // as TOML
  std::function<void(Config&)> reset;                    // to the default

  bool is_required = false;  // whenever it has an effect
  std::string default_text;  // in words, if the default depends on other values
  // The key has an effect if at least one of these conditions holds, or if there are none.
  struct Condition {
    std::string key;  // "table.key"
    std::vector<std::string> values;
  };
  std::vector<Condition> conditions;
  std::string replaced_by;  // "table.key" of a number or a flag; unless it is 0 or false, this key has no effect

  bool may_change = false;  // a resumed run may have another value

  KeySpec& changeable();
  KeySpec& required();
  KeySpec& default_is(std::string text);
  // Sets replaced_by.
  KeySpec& unless(std::string other);
  // Adds a condition. After several calls, one of the conditions is enough.
  KeySpec& only_with(std::string other, std::vector<std::string> values);

  std::string path() const { return table.empty() ? name : table + "." + name; }
  bool has_effect(const Config& config) const;
  std::string condition() const;        // `data.source = "skip"`; empty if the key always has an effect
  std::string default_or_text() const;  // as TOML, or default_text
};

// All keys in the order in which they are printed, those before the first table first, those of one table together.
const std::vector<KeySpec>& schema();
bool is_table(std::string_view name);

// table: empty for a key before the first table. Returns nullptr if there is no such key.
const KeySpec* find_key(std::string_view table, std::string_view name);
// The keys that `name` without a table can mean: a key before the first table alone, else one of each table.
std::vector<const KeySpec*> find_keys(std::string_view name);

}  // namespace heed::train
