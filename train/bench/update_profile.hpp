// Where the time of an update goes: each operation, forward and backward, by its shapes.
//
// All that passes between the end of one piece of work and the end of the next counts for the latter, so the rows add
// up to the whole. On CUDA each piece of work is waited for, which adds some ten microseconds to it and is not how
// training runs. FLOPs are those of the matrix products in linear layers and in causal attention, two for each
// multiplication, twice as many in backward (recomputation inside attention is not counted). Bytes are those of inputs
// and results, in backward also of the gradients: what must move at least.
#pragma once

#include <chrono>
#include <functional>
#include <map>

#include "autograd/tape.hpp"
#include "train/bench/bench_row.hpp"

namespace heed::train {

class UpdateProfile final : public WorkObserver {
 public:
  // other_bytes: what other work than operations moves, by name. device: where the work is done.
  explicit UpdateProfile(std::map<std::string, double> other_bytes, Device device = Device::cpu)
      : other_bytes_(std::move(other_bytes)), device_(device) {}

  // Runs and measures one update more, on this thread.
  void add(const std::function<void()>& update);

  // The mean of an update, in falling order of seconds.
  std::vector<BenchRow> rows() const;

 private:
  void done(const Work& work) override;

  std::map<std::string, double> other_bytes_;
  Device device_;
  std::map<std::string, BenchRow> rows_;  // sums over the updates, by label
  std::chrono::steady_clock::time_point last_;
  int64_t updates_ = 0;
};

}  // namespace heed::train
