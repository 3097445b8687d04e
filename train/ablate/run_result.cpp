#include "train/ablate/run_result.hpp"

#include <algorithm>

#include "train/run/summary_reader.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

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

bool RunResult::is_complete(const Config& config) const { return train::is_complete(summary, config); }

bool RunResult::is_final(const Config& config) const {
  return is_complete(config) || summary.status == RunStatus::diverged;
}

std::optional<RunResult> read_run(const fs::path& folder) {
  const fs::path summary = folder / "summary.json", metrics = folder / "metrics.csv";
  if (!fs::exists(summary)) return std::nullopt;
  RunResult result;
  result.summary = read_summary(summary).summary;
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
