// `heed bench`: throughput of the operations and of a whole training step, relative to measured hardware limits.
#pragma once

#include <string>
#include <vector>

#include "autograd/check/op_case.hpp"
#include "train/bench/roofline.hpp"
#include "train/comm/process_group.hpp"
#include "train/config/config.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {

struct BenchOperationsOptions {
  Device device = Device::cpu;
  DType dtype = DType::f32;
  bool as_json = false;
};

// Forward and backward of every operation, at the sizes for the device: ms, GB/s or GFLOP/s, and % of the measured
// ceiling (copy bandwidth, best GEMM). names: operations; empty: all. Throws ConfigError for an unknown operation,
// DeviceError if there is no such device.
void bench_operations(const std::vector<std::string>& names, const BenchOperationsOptions& options);

// Forward, and backward if the operation has one. On CUDA the backward time is that of forward and backward minus that
// of forward.
std::vector<BenchRow> bench_operation(const std::string& name, const OpSample& sample, Device device, DType dtype);

struct BenchStepOptions {
  int64_t warm_up = 3;  // untimed steps before the timed ones; on CUDA a minimum, see warm_up()
  int64_t steps = 0;    // timed steps; 0: enough for a reliable median
  bool as_json = false;
};

// Runs at least `steps` training steps; none if `steps` is 0. On CUDA it first runs the two steps that precede graph
// replays, then half a second of replays, until the clocks of an idle GPU have risen. Collective: all ranks run the
// same number of steps.
void warm_up(Trainer& trainer, int64_t steps);

// The config as a benchmark trains it: from random weights, which do not change the speed, and with more train.steps
// than it runs. On CUDA, a step draws the next batch while the device works. The last one of train.steps does not, and
// the time of later steps would include drawing their batches.
Config config_of_bench(const Config& given);

// Training steps of a config: ms, tokens/s, MFU, peak memory by category and of the process, and the time of one step
// by operation. On CUDA also the time of a step without a captured graph.
// MFU = tokens/s * FLOPs per token / peak; FLOPs per token = 6 * weights in GEMMs + 6 L T H D (causal attention); the
// peak is the best measured GEMM in the run's precision at the model's own shapes.
// The timed steps run as in training. The times by operation are measured in separate steps after them, on CUDA with
// CUDA events. With several ranks, it shows the root's times and how long a step waits for the other ranks; MFU is
// relative to the peak of all ranks. All ranks time the same number of steps, 20 if options.steps is 0. Collective.
void bench_step(const Config& config, const BenchStepOptions& options, comm::ProcessGroup& ranks);

}  // namespace heed::train
