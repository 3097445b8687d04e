// The one table of all keys of a config file. Reading, overriding, checking, printing and the reference follow from it:
// a new key is a member of a struct in config.hpp and a line in config_schema.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {

struct KeySpec {
  std::string table;
  std::string name;
  std::string meaning;
  std::string allowed;                                   // completes "it must be …"
  bool is_text = false;                                  // a string in TOML
  std::function<bool(Config&, const ConfigValue&)> set;  // false: of another type, or not allowed
  std::function<std::string(const Config&)> get;         // as TOML
  std::function<void(Config&)> reset;                    // to the default

  bool is_required = false;  // whenever it has an effect
  std::string default_text;  // in words, for a default that depends on other values
  // The key has an effect only if one of these choices is as said; always if there are none.
  struct Condition {
    std::string key;  // "table.key"
    std::vector<std::string> values;
  };
  std::vector<Condition> conditions;
  std::string replaced_by;  // "table.key" of a number that, where it is not 0, takes this key's effect

  bool may_change = false;  // a resumed run may have another value

  KeySpec& changeable();
  KeySpec& required();
  KeySpec& default_is(std::string text);
  // Called twice: one of both is enough.
  KeySpec& unless(std::string other);
  KeySpec& only_with(std::string other, std::vector<std::string> values);

  std::string path() const { return table + "." + name; }
  bool has_effect(const Config& config) const;
  std::string condition() const;  // `data.source = "skip"`; empty if the key always has an effect
};

// All keys, those of one table together, in the order in which they are printed.
const std::vector<KeySpec>& schema();
bool is_table(std::string_view name);

// nullptr if there is no such key.
const KeySpec* find_key(std::string_view table, std::string_view name);
std::vector<const KeySpec*> find_keys(std::string_view name);

}  // namespace heed::train
