// `heed bench`: how fast the operations and a whole update are, against what the machine can do.
#pragma once

#include <string>
#include <vector>

#include "train/config.hpp"

namespace heed::train {

// Every operation's forward and backward: ms, GB/s or GFLOP/s, and % of the measured ceiling (copy bandwidth, best
// matrix product). names: operations, empty: all. Throws ConfigError for one that does not exist.
void bench_operations(const std::vector<std::string>& names);

// Updates of a config: ms, tokens/s, MFU.
// MFU = tokens/s * FLOPs per token / peak; FLOPs per token = 6 * weights in matrix products + 6 L T H D (causal
// attention); the peak is the best measured product in f32 at the model's own shapes.
void bench_update(const Config& config);

}  // namespace heed::train
