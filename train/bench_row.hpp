// One line of a benchmark, and the ceilings of the machine that it is held against.
#pragma once

#include <string>

#include "autograd/core/dtype.hpp"
#include "nn/gpt_config.hpp"

namespace heed::train {

struct Ceilings {
  double bytes_per_s = 0;  // copy of 256 MiB, read + write
  double flops_per_s = 0;  // best matrix product
};

// Bytes read and written per second by a copy far larger than the caches.
double copy_bandwidth();
// FLOP/s of the product 1024^3.
double product_rate(DType dtype);
// FLOP/s of the best of the products that a block of this model makes of so many tokens.
double product_rate(DType dtype, const nn::GptConfig& model, int64_t tokens);

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
};

std::string ceilings_text(const Ceilings& ceilings, const std::string& product);
std::string ceilings_json(const Ceilings& ceilings);

}  // namespace heed::train
