// One row of a benchmark.
#pragma once

#include <cstdint>
#include <string>

#include "train/bench/bench_ceilings.hpp"

namespace heed::train {

struct BenchRow {
  std::string operation = {}, shapes = {};
  bool is_backward = false;
  int64_t calls = 1;
  double seconds = 0, flops = 0, bytes = 0;  // of all calls together

  std::string label() const;
  // Fraction of the ceiling: the larger of the FLOP/s and the bandwidth fraction. It can exceed 1 if the data fits into
  // the caches.
  double share_of(const Ceilings& ceilings) const;
  std::string rates(const Ceilings& ceilings) const;  // "   120.0 GFLOP/s    12.0 GB/s    60 %"
  std::string json(const Ceilings& ceilings) const;

 private:
  double per_second(double work) const;  // 0 if seconds is 0
};

}  // namespace heed::train
