#include "train/config/model_variants.hpp"

#include <fmt/format.h>

#include "autograd/core/check.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"

namespace heed::train {
namespace {

void set(Config& config, const KeySpec& key, const std::string& value) {
  const std::optional<ConfigValue> read = read_toml_value(value);
  require<ConfigError>(read && key.set(config, *read), "model variants: {} = {} is refused, it must be {}", key.path(),
                       value, key.allowed);
}

void give_effect(Config& config, const KeySpec& key) {
  if (key.has_effect(config) || key.conditions.empty()) return;
  const KeySpec::Condition& needed = key.conditions.front();
  for (const KeySpec& other : schema()) {
    if (other.path() == needed.key) set(config, other, needed.values.front());
  }
}

}  // namespace

std::vector<std::pair<std::string, nn::GptConfig>> model_variants(const nn::GptConfig& base) {
  std::vector<std::pair<std::string, nn::GptConfig>> variants;
  for (const KeySpec& key : schema()) {
    if (key.table != "model") continue;
    for (const std::string& value : key.choices) {
      Config config;
      config.model = base;
      if (key.get(config) == value) continue;
      give_effect(config, key);
      set(config, key, value);
      variants.emplace_back(fmt::format("{} = {}", key.name, value), config.model);
    }
  }
  return variants;
}

}  // namespace heed::train
