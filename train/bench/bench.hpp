// `heed bench`: how fast the operations and a whole update are, against what the machine can do.
#pragma once

#include <string>
#include <vector>

#include "autograd/check/op_case.hpp"
#include "train/bench/bench_row.hpp"
#include "train/comm/ranks.hpp"
#include "train/config/config.hpp"

namespace heed::train {

struct BenchOperationsOptions {
  Device device = Device::cpu;
  DType dtype = DType::f32;
  bool as_json = false;
};

// Every operation's forward and backward at the sizes that are meant for the device: ms, GB/s or GFLOP/s, and % of the
// measured ceiling (copy bandwidth, best matrix product). names: operations, empty: all. Throws ConfigError for one
// that does not exist, DeviceError where there is no such device.
void bench_operations(const std::vector<std::string>& names, const BenchOperationsOptions& options);

// Forward, and backward where there is one. On CUDA the backward is the time of both less that of the forward.
std::vector<BenchRow> bench_operation(const std::string& name, const OpSample& sample, Device device, DType dtype);

struct BenchUpdateOptions {
  int64_t warm_up = 3;  // updates before those that are timed
  int64_t updates = 0;  // timed; 0: enough to trust the middle one
  bool as_json = false;
};

// Updates of a config: ms, tokens/s, MFU, peak memory by category and of the process, and one update by operation. On
// CUDA also how long an update takes that is not recorded as a graph.
// MFU = tokens/s * FLOPs per token / peak; FLOPs per token = 6 * weights in matrix products + 6 L T H D (causal
// attention); the peak is the best measured product in the run's precision at the model's own shapes.
// The timed updates run as in training; the update by operation is measured in others after them.
// Of several ranks the root's times are shown, and how long an update waits for the others; MFU is of all ranks' peaks.
// They time the same number of updates, 20 without options.updates. Collective.
void bench_update(const Config& config, const BenchUpdateOptions& options, comm::Ranks& ranks);

}  // namespace heed::train
