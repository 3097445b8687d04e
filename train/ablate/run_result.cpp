#include "train/ablate/run_result.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/text/text_file.hpp"

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
  s.entropy = optional_number(json, "entropy");
  s.excess = optional_number(json, "excess");
  s.tokens_per_s = json.at("tokens_per_s");
  s.seconds = json.at("seconds");
  s.peak_memory_bytes = json.at("peak_memory_bytes");
  for (const Json& one : json.at("entropies")) {
    s.entropies.push_back({one.at("context_tokens"), one.at("nats"), one.at("name")});
  }
  return s;
}

Summary read_summary(const fs::path& path) {
  const std::string name = data::quoted_path(path.string());
  try {
    return summary_of(Json::parse(read_small_file(path.string(), "summary")));
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{} is not a summary.json that heed wrote: {}", name, error.what()));
  }
}

std::vector<PassedEntropy> find_passed(const Summary& summary, const std::vector<MetricsRow>& curve) {
  std::vector<PassedEntropy> passed;
  for (const data::ContextEntropy& entropy : summary.entropies) {
    // The last one is the entropy of the dataset, which no model passes but by chance.
    if (passed.size() + 1 == summary.entropies.size()) break;
    const auto is_below = [&](const MetricsRow& row) { return row.val_loss && *row.val_loss <= entropy.nats; };
    const auto found = std::find_if(curve.begin(), curve.end(), is_below);
    passed.push_back({entropy, found == curve.end() ? std::nullopt : std::optional(found->step)});
  }
  return passed;
}

}  // namespace

bool RunResult::is_complete(const Config& config) const {
  // A signal in the last evaluation also stops a run at its last step, but without its losses.
  return summary.status == RunStatus::completed ||
         (summary.status == RunStatus::stopped && config.train.stop_after > 0 &&
          summary.reason == fmt::format("train.stop_after = {}", config.train.stop_after));
}

bool RunResult::is_final(const Config& config) const {
  return is_complete(config) || summary.status == RunStatus::diverged;
}

std::optional<RunResult> read_run(const fs::path& folder) {
  const fs::path summary = folder / "summary.json", metrics = folder / "metrics.csv";
  if (!fs::exists(summary)) return std::nullopt;
  RunResult result;
  result.summary = read_summary(summary);
  if (fs::exists(metrics)) result.curve = read_metrics(metrics);
  result.passed = find_passed(result.summary, result.curve);
  result.grad_norm_spikes = find_spikes(result.curve);
  return result;
}

int64_t find_spikes(const std::vector<MetricsRow>& curve) {
  int64_t spikes = 0;
  std::vector<double> window;
  for (size_t i = kSpikeWindow; i < curve.size(); ++i) {
    window.clear();
    for (size_t j = i - kSpikeWindow; j < i; ++j) window.push_back(curve[j].grad_norm);
    const auto middle = window.begin() + kSpikeWindow / 2;
    std::nth_element(window.begin(), middle, window.end());
    spikes += curve[i].grad_norm > kSpike * *middle ? 1 : 0;
  }
  return spikes;
}

}  // namespace heed::train
