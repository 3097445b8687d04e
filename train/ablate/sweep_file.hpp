// The content of a sweep file (train/ablate/sweep.hpp), its keys checked against the schema; the arms are not resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heed::train {

inline constexpr int64_t kMostSeeds = 1000;

// A config key of the sweep, its values (of the grid: several) and its place, "heads.toml:7:1".
struct Setting {
  std::string key;                  // KeySpec::path()
  std::vector<std::string> values;  // as TOML
  std::string place;
};

struct NamedArm {
  std::string name;
  std::string place;
  std::vector<Setting> settings;
};

struct SweepFile {
  std::string name;  // of the file
  std::string config, config_place;
  std::string baseline, baseline_place;
  int64_t seeds = 3;
  double significance = 0.05;
  std::optional<double> noise_sd;
  std::vector<Setting> base, grid;
  std::vector<NamedArm> arms;
};

// Throws ConfigError, one line with the place.
SweepFile read_sweep_file(const std::string& path);

}  // namespace heed::train
