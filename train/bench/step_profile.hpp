// Profile of a training step: the time of each operation, forward and backward, by its shapes.
//
// All time between the end of one work item (an operation, or other work such as the optimizer) and the end of the next
// is attributed to the latter, so the rows add up to the whole step. On CUDA it is GPU time, measured with events
// between the work items, and the host does not wait. If training replays the step as a CUDA graph, the profile
// captures and replays it with these events. An event adds about a microsecond, and the first row includes the launch
// of the graph. FLOPs are those of the GEMMs in linear layers and in causal attention, two per multiply-add, and twice
// as many in backward (without the recomputation inside attention). linear_cross_entropy, the head and the loss, has
// one row for forward and backward. Bytes are those of inputs and results, in backward also of the gradients: a lower
// bound on the memory traffic.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/tape.hpp"
#include "train/bench/roofline.hpp"

namespace heed::train {

class StepProfile final : public WorkObserver {
 public:
  // other_bytes: bytes moved by work other than operations, by name. device: the device that does the work.
  explicit StepProfile(std::map<std::string, double> other_bytes, Device device = Device::cpu);

  // Runs and profiles one more step, on this thread. `step` waits for the device.
  void add(const std::function<void()>& step);

  // The mean over the profiled steps, in descending order of seconds.
  std::vector<BenchRow> rows() const;

 private:
  void done(const Work& work) override;
  std::shared_ptr<const void> captured_events() const override { return stopwatch_; }

  std::map<std::string, double> other_bytes_;
  Device device_;
  std::shared_ptr<cuda::Stopwatch> stopwatch_;  // on CUDA
  std::vector<BenchRow> work_;                  // of the last step that was not a replay, in order of execution
  bool is_new_ = false;                         // the step has not reported any work yet
  std::map<std::string, BenchRow> rows_;        // sums over the steps, by label
  std::chrono::steady_clock::time_point last_;
  int64_t steps_ = 0;
};

}  // namespace heed::train
