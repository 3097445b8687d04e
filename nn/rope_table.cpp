#include "nn/rope_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/cpu/parallel.hpp"

namespace heed::nn {
namespace {

double scaled(double theta, const GptConfig& config) {
  if (config.rope_scaling == RopeScaling::none) return theta;
  const double slowed = theta / config.rope_scaling_factor;
  if (config.rope_scaling == RopeScaling::linear) return slowed;
  constexpr double kLow = 1, kHigh = 4;  // turns
  const double turns = static_cast<double>(config.rope_original_seq_len) * theta / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
  return kept * theta + (1 - kept) * slowed;
}

}  // namespace

std::vector<double> rope_frequencies(const GptConfig& config) {
  const int64_t columns = config.rope_columns();
  std::vector<double> thetas;
  for (int64_t i = 0; i < columns / 2; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(columns);
    thetas.push_back(scaled(std::pow(config.rope_base, exponent), config));
  }
  return thetas;
}

Tensor rope_table(const GptConfig& config, int64_t rows, DType dtype, Device device) {
  const std::vector<double> thetas = rope_frequencies(config);
  const auto half = static_cast<int64_t>(thetas.size());
  const Tensor table = empty({rows, 2 * half}, accumulation_dtype(dtype));
  visit_accumulation(table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int64_t kGrain = 64;  // positions; tens of microseconds
    T* values = table.data<T>();
    cpu::parallel_for(rows, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(t) * thetas[static_cast<size_t>(i)];
          values[2 * t * half + i] = static_cast<T>(std::cos(angle));
          values[(2 * t + 1) * half + i] = static_cast<T>(std::sin(angle));
        }
      }
    });
  });
  return table.to(device);
}

}  // namespace heed::nn
