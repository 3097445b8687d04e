// The roofline of a device: its measured limits, copy bandwidth and GEMM rate, and the share of them that a benchmark
// reaches.
#pragma once

#include <cstdint>
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
  double flops_per_s = 0;  // best GEMM
};

// Random values as in training, because GPUs multiply zeros faster; large tensors repeat one block of values. The block
// for each dtype and device stays in memory until forget_bench_values().
Tensor bench_values(const Shape& shape, DType dtype, Device device);
void forget_bench_values();

// Copy bandwidth: bytes read and written per second, by a copy far larger than the caches.
double copy_bandwidth(Device device);
// FLOP/s of a large square GEMM.
double gemm_rate(DType dtype, Device device);
// FLOP/s of the fastest GEMM that a Transformer block of this model runs on this number of tokens.
double gemm_rate(DType dtype, Device device, const nn::GptConfig& model, int64_t tokens);
std::string gemm_text(DType dtype, Device device);  // "f32 GEMM 1024^3"

std::string ceilings_text(const Ceilings& ceilings, const std::string& gemm);
std::string ceilings_json(const Ceilings& ceilings);
std::string device_text(Device device);  // "2 threads", "NVIDIA H200 (sm_90)"

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
