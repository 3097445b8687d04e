// summary.json (train/run/summary.hpp), read back.
#pragma once

#include <filesystem>

#include "train/config/config.hpp"
#include "train/run/summary.hpp"

namespace heed::train {

struct StoredSummary {
  Summary summary;  // without val_targets, best_val_targets, waited_s_per_step, stop_signal
  Config config;    // each value as in the file; derived ones that are no keys, such as model.vocab_size, have defaults
};

// Throws ConfigError if the file cannot be read, DataError if heed did not write it.
StoredSummary read_summary(const std::filesystem::path& path);

}  // namespace heed::train
