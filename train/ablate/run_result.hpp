// What a run of a sweep came to, read from its run folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "train/run/metrics.hpp"
#include "train/run/summary.hpp"

namespace heed::train {

// The first evaluation whose loss is at most the entropy with so much context: the model uses more context than that.
struct PassedEntropy {
  data::ContextEntropy entropy;
  std::optional<int64_t> step;  // nullopt: never
};

struct RunResult {
  Summary summary;                // without the members that summary.json does not hold
  std::vector<MetricsRow> curve;  // rows of metrics.csv
  std::vector<PassedEntropy> passed;
  int64_t grad_norm_spikes = 0;  // find_spikes()

  // It need not run again: completed, diverged, or all steps up to train.stop_after done. A failed run is tried again,
  // since its cause, such as a full disk, may be gone.
  bool is_final(const Config& config) const;
  // All its steps are done, and its losses can be compared.
  bool is_complete(const Config& config) const;
};

// nullopt if the folder has no summary.json. Throws DataError with the file if it or metrics.csv cannot be read.
std::optional<RunResult> read_run(const std::filesystem::path& folder);

// The number of steps after which the gradient norm is above kSpike times the median of the kSpikeWindow steps before.
inline constexpr double kSpike = 3;
inline constexpr int64_t kSpikeWindow = 50;
int64_t find_spikes(const std::vector<MetricsRow>& curve);

}  // namespace heed::train
