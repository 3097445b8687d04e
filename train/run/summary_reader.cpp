#include "train/run/summary_reader.hpp"

#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/text/text_file.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::optional<double> optional_number(const Json& object, const char* name) {
  const Json& value = object.at(name);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

RunStatus status_of(const std::string& name) {
  constexpr RunStatus kAll[] = {RunStatus::running, RunStatus::completed, RunStatus::stopped, RunStatus::diverged,
                                RunStatus::failed};
  for (const RunStatus status : kAll) {
    if (name == status_name(status)) return status;
  }
  throw DataError("status \"" + name + "\" is unknown");
}

Summary summary_of(const Json& json) {
  Summary s;
  s.status = status_of(json.at("status"));
  if (!json.at("reason").is_null()) s.reason = json.at("reason");
  s.steps = json.at("steps");
  s.parameters = json.at("parameters");
  s.train_loss = optional_number(json, "train_loss");
  s.val_loss = optional_number(json, "val_loss");
  s.best_val_loss = optional_number(json, "best_val_loss");
  s.test_loss = optional_number(json, "test_loss");
  s.bits_per_byte = optional_number(json, "bits_per_byte");
  s.entropy = optional_number(json, "entropy");
  if (json.contains("val_loss_ema")) {  // not in files of earlier versions
    s.val_loss_ema = optional_number(json, "val_loss_ema");
    s.test_loss_ema = optional_number(json, "test_loss_ema");
  }
  s.excess = optional_number(json, "excess");
  s.tokens_per_s = json.at("tokens_per_s");
  s.seconds = json.at("seconds");
  s.peak_memory_bytes = json.at("peak_memory_bytes");
  for (const Json& one : json.at("entropies")) {
    const Json& context = one.at("context_tokens");
    s.entropies.push_back({.context_tokens = context.is_null() ? std::nullopt : std::optional<int64_t>(context),
                           .nats = one.at("nats"),
                           .name = one.at("name"),
                           .standard_error = one.value("standard_error", 0.0)});
  }
  return s;
}

ConfigValue value_of(const Json& json) {
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (!json.is_array()) return {json.get<std::string>()};
  std::vector<ConfigValue> list;
  for (const Json& one : json) list.push_back(value_of(one));
  return {list};
}

// Keys that had no effect in the run are not in the file.
Config config_of(const Json& json) {
  Config config;
  for (const KeySpec& key : schema()) {
    const Json& table = key.table.empty() ? json : json.at(key.table);
    if (!table.contains(key.name)) continue;
    require<DataError>(key.set(config, value_of(table.at(key.name))), "config: {} must be {}", key.path(), key.allowed);
  }
  return config;
}

}  // namespace

StoredSummary read_summary(const fs::path& path) {
  const auto refuse = [&](const std::exception& error) {
    return DataError(
        fmt::format("{} is not a summary.json that heed wrote: {}", data::quoted_path(path.string()), error.what()));
  };
  const std::string text = read_small_file(path.string(), "summary");
  try {
    const Json json = Json::parse(text);
    return {summary_of(json), config_of(json.at("config"))};
  } catch (const Json::exception& error) {
    throw refuse(error);
  } catch (const DataError& error) {
    throw refuse(error);
  }
}

}  // namespace heed::train
