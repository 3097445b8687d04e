// The keys of the config file, declared table by table: config_schema.cpp makes the schema of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config_schema.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {

// The keys of one table, which are the members of one struct of Config.
template <class Struct>
class Table {
 public:
  Table(std::vector<KeySpec>& keys, std::string name, Struct Config::*section)
      : keys_(keys), name_(std::move(name)), section_(section) {}

  template <class T>
  KeySpec& add(std::string name, T Struct::*member, const ValueFormat<T>& format, std::string meaning) {
    KeySpec& key = keys_.emplace_back();
    key.table = name_;
    key.name = std::move(name);
    key.meaning = std::move(meaning);
    key.allowed = format.allowed;
    key.is_text = format.is_text;
    key.choices = format.choices;
    key.set = [section = section_, member, read = format.read](Config& config, const ConfigValue& value) {
      const std::optional<T> result = read(value);
      config.*section.*member = result.value_or(config.*section.*member);
      return result.has_value();
    };
    key.reset = [section = section_, member](Config& config) { config.*section.*member = Struct{}.*member; };
    key.get = [section = section_, member, write = format.write](const Config& config) {
      return write(config.*section.*member);
    };
    return key;
  }

 private:
  std::vector<KeySpec>& keys_;
  std::string name_;
  Struct Config::*section_;
};

// Limits of numbers: upper limits are far above what runs, and small enough that no count of elements or bytes
// overflows int64. Positive lower limits do not round to 0 in f32; for clip_norm, this holds for the factor on the
// gradients, clip_norm divided by a norm of up to 1e38.

void add_model_keys(std::vector<KeySpec>& keys);
void add_data_keys(std::vector<KeySpec>& keys);
void add_optim_keys(std::vector<KeySpec>& keys);
void add_train_keys(std::vector<KeySpec>& keys);

}  // namespace heed::train
