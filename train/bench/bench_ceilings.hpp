// What a device can do at best: benchmarks are held against it.
#pragma once

#include <string>

#include "autograd/core/device.hpp"
#include "autograd/core/dtype.hpp"
#include "autograd/core/shape.hpp"
#include "autograd/tensor.hpp"
#include "nn/gpt_config.hpp"

namespace heed::train {

struct Ceilings {
  Device device = Device::cpu;
  double bytes_per_s = 0;  // copy, read + write
  double flops_per_s = 0;  // best matrix product
};

// Values as training has them, a block of them over and over where there are many. Not zeros: a card multiplies those
// faster.
Tensor bench_values(const Shape& shape, DType dtype, Device device);

// Bytes read and written per second by a copy far larger than the caches.
double copy_bandwidth(Device device);
// FLOP/s of a large square product.
double product_rate(DType dtype, Device device);
// FLOP/s of the best of the products that a block of this model makes of so many tokens.
double product_rate(DType dtype, Device device, const nn::GptConfig& model, int64_t tokens);
std::string product_text(DType dtype, Device device);  // "f32 product 1024^3"

std::string ceilings_text(const Ceilings& ceilings, const std::string& product);
std::string ceilings_json(const Ceilings& ceilings);
std::string device_text(Device device);  // "2 threads", "NVIDIA H200 (sm_90)"

}  // namespace heed::train
