// One line of a benchmark.
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
  // The larger of both shares of the ceilings. Data that fits into the caches can pass 1.
  double share_of(const Ceilings& ceilings) const;
  std::string rates(const Ceilings& ceilings) const;  // "   120.0 GFLOP/s    12.0 GB/s    60 %"
  std::string json(const Ceilings& ceilings) const;

 private:
  double per_second(double work) const;  // 0 where it took no time
};

}  // namespace heed::train
