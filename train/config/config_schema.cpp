#include "train/config/config_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/config/config_keys.hpp"

namespace heed::train {
namespace {

void add_global_keys(std::vector<KeySpec>& keys) {
  Table<GlobalConfig>(keys, "", &Config::global)
      .add("seed", &GlobalConfig::seed, seed_number(),
           "random seed of the whole run: the default of model.seed, data.seed and train.seed");
}

}  // namespace

KeySpec& KeySpec::changeable() {
  may_change = true;
  return *this;
}

KeySpec& KeySpec::required() {
  is_required = true;
  return *this;
}

KeySpec& KeySpec::default_is(std::string text) {
  default_text = std::move(text);
  return *this;
}

KeySpec& KeySpec::only_with(std::string other, std::vector<std::string> values) {
  for (std::string& value : values) value = quote(value);
  conditions.push_back({std::move(other), std::move(values)});
  return *this;
}

KeySpec& KeySpec::unless(std::string other) {
  replaced_by = std::move(other);
  return *this;
}

bool KeySpec::has_effect(const Config& config) const {
  const auto value_of = [&](const std::string& path) {
    const auto is_it = [&](const KeySpec& key) { return key.path() == path; };
    return std::find_if(schema().begin(), schema().end(), is_it)->get(config);
  };
  const auto holds = [&](const Condition& condition) {
    return std::find(condition.values.begin(), condition.values.end(), value_of(condition.key)) !=
           condition.values.end();
  };
  if (!replaced_by.empty() && value_of(replaced_by) != "0" && value_of(replaced_by) != "false") return false;
  return conditions.empty() || std::any_of(conditions.begin(), conditions.end(), holds);
}

std::string KeySpec::condition() const {
  std::string text;
  for (const Condition& one : conditions) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : " or ", one.key, join_alternatives(one.values));
  }
  if (replaced_by.empty()) return text;
  const auto other =
      std::find_if(schema().begin(), schema().end(), [&](const KeySpec& key) { return key.path() == replaced_by; });
  return fmt::format("{}{}{} = {}", text, text.empty() ? "" : " with ", replaced_by,
                     other->choices.empty() ? "0" : "false");
}

std::string KeySpec::default_or_text() const { return default_text.empty() ? get(Config{}) : default_text; }

const std::vector<KeySpec>& schema() {
  static const std::vector<KeySpec> keys = [] {
    std::vector<KeySpec> all;
    add_global_keys(all);
    add_model_keys(all);
    add_data_keys(all);
    add_optim_keys(all);
    add_train_keys(all);
    return all;
  }();
  return keys;
}

bool is_table(std::string_view name) {
  return !name.empty() &&
         std::any_of(schema().begin(), schema().end(), [&](const KeySpec& key) { return key.table == name; });
}

const KeySpec* find_key(std::string_view table, std::string_view name) {
  const auto found = std::find_if(schema().begin(), schema().end(),
                                  [&](const KeySpec& key) { return key.table == table && key.name == name; });
  return found != schema().end() ? &*found : nullptr;
}

std::vector<const KeySpec*> find_keys(std::string_view name) {
  if (const KeySpec* global = find_key("", name)) return {global};
  std::vector<const KeySpec*> found;
  for (const KeySpec& key : schema()) {
    if (key.name == name) {
      found.push_back(&key);
    }
  }
  return found;
}

}  // namespace heed::train
