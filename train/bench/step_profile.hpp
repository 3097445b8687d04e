// Profile of a training step: the time of each operation, forward and backward, by its shapes.
//
// All time between the end of one work item (an operation, or other work such as the optimizer) and the end of the next
// is attributed to the latter, so the rows add up to the whole step. On CUDA the host waits for each work item, which
// adds some ten microseconds to it and is not how training runs. FLOPs are those of the GEMMs in linear layers and in
// causal attention, two per multiply-add, and twice as many in backward (recomputation inside attention is not
// counted). Bytes are those of inputs and results, in backward also of the gradients: a lower bound on the memory
// traffic.
#pragma once

#include <chrono>
#include <functional>
#include <map>

#include "autograd/tape.hpp"
#include "train/bench/roofline.hpp"

namespace heed::train {

class StepProfile final : public WorkObserver {
 public:
  // other_bytes: bytes moved by work other than operations, by name. device: the device that does the work.
  explicit StepProfile(std::map<std::string, double> other_bytes, Device device = Device::cpu)
      : other_bytes_(std::move(other_bytes)), device_(device) {}

  // Runs and profiles one more step, on this thread.
  void add(const std::function<void()>& step);

  // The mean over the profiled steps, in descending order of seconds.
  std::vector<BenchRow> rows() const;

 private:
  void done(const Work& work) override;

  std::map<std::string, double> other_bytes_;
  Device device_;
  std::map<std::string, BenchRow> rows_;  // sums over the steps, by label
  std::chrono::steady_clock::time_point last_;
  int64_t steps_ = 0;
};

}  // namespace heed::train
