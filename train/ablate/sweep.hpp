// A sweep: a TOML file that says which configs `heed ablate` compares, and with how many seeds.
//
//   config = "../skip.toml"         the base config; a relative path counts from the folder of this file
//   seeds = 5                       runs of each arm, with the seeds s, s + 1, …; s is the `seed` of its config, 1 by
//   default baseline = "num_heads=1"        the arm that the others are compared with; by default the first
//   significance = 0.05             probability of any false positive, over all comparisons
//   noise_sd = 0.01                 expected standard deviation of the loss over seeds, if it is known
//   [base]                          config keys of all arms: model.num_layers = 1
//   [grid]                          config keys, each with a list of values: the arms are all combinations
//   model.num_heads = [1, 2, 4]
//   [[arm]]                         instead of a grid: one arm, its name and its config keys
//   name = "post"
//   model.norm_position = "post"
//
// An arm is one setting of the config. Run k of every arm has the same seed, so that all arms see the same data, and
// arms of the same shape start with the same weights: comparisons are paired (train/ablate/statistics.hpp).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config.hpp"

namespace heed::train {

struct Arm {
  std::string name;    // "num_heads=4, norm_position=pre"
  std::string folder;  // the name as a file name, unique in the sweep: "2-num_heads=4_norm_position=pre"
  // What tells it from the others: path of the key and value as TOML.
  std::vector<std::pair<std::string, std::string>> settings;
  Config config;  // resolved, with the first seed
};

struct Sweep {
  std::string file_name;
  std::vector<Arm> arms;
  int64_t seeds = 3;
  size_t baseline = 0;  // index of the arm
  double significance = 0.05;
  std::optional<double> noise_sd;
  std::string folder;                // where its runs and results are; absolute
  std::vector<std::string> notices;  // one line each

  int64_t num_runs() const { return static_cast<int64_t>(arms.size()) * seeds; }
  uint32_t seed(const Arm& arm, int64_t run) const { return arm.config.global.seed + static_cast<uint32_t>(run); }
};

inline constexpr int64_t kMostRuns = 100'000;

// overrides: `run_dir=FOLDER` (by default "runs/" and the name of the file), `seeds=NUMBER`, and `table.key=value` for
// all arms. Every arm is resolved and checked here. Throws ConfigError, one line with the place: for a key that does
// not exist, an empty grid, two equal arms, an arm whose config is refused, seeds that change nothing.
Sweep load_sweep(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace heed::train
