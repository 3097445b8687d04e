#include "train/inspect/attention_pattern.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::train {
namespace {

// Replaces the first `count` numbers of the row by their softmax.
void softmax(float* row, int64_t count) {
  const float largest = *std::max_element(row, row + count);
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    const double weight = std::exp(static_cast<double>(row[j] - largest));
    sum += weight;
    row[j] = static_cast<float>(weight);
  }
  for (int64_t j = 0; j < count; ++j) row[j] = static_cast<float>(row[j] / sum);
}

}  // namespace

Tensor attention_pattern(const Tensor& qkv, int64_t num_heads, int64_t num_kv_heads) {
  const int64_t parts = num_heads + 2 * num_kv_heads;
  require<ShapeError>(qkv.rank() == 3 && qkv.shape()[2] % parts == 0,
                      "attention_pattern: qkv has shape {}, it must be (B, T, a multiple of {})", qkv.shape(), parts);
  const int64_t batch = qkv.shape()[0], length = qkv.shape()[1], width = qkv.shape()[2], head_size = width / parts;
  const std::vector<double> values = qkv.values();
  const double scale = 1 / std::sqrt(static_cast<double>(head_size));
  Tensor pattern = zeros({batch, num_heads, length, length}, DType::f32);
  float* const rows = pattern.data<float>();
  // Keys as (B, Hkv, D, T), so that the innermost loop below runs over keys.
  std::vector<float> keys(static_cast<size_t>(batch * num_kv_heads * head_size * length));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t j = 0; j < length; ++j) {
      const double* const row = values.data() + (b * length + j) * width + num_heads * head_size;
      for (int64_t c = 0; c < num_kv_heads * head_size; ++c) {
        keys[(b * num_kv_heads * head_size + c) * length + j] = static_cast<float>(row[c]);
      }
    }
  }
  cpu::parallel_for(batch * num_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t which = begin; which < end; ++which) {
      const int64_t b = which / num_heads, h = which % num_heads;
      const float* const k = keys.data() + (b * num_kv_heads + h * num_kv_heads / num_heads) * head_size * length;
      for (int64_t i = 0; i < length; ++i) {
        const double* const q = values.data() + (b * length + i) * width + h * head_size;
        float* const row = rows + (which * length + i) * length;
        for (int64_t c = 0; c < head_size; ++c) {
          const auto query = static_cast<float>(q[c] * scale);
          for (int64_t j = 0; j <= i; ++j) row[j] += query * k[c * length + j];
        }
        softmax(row, i + 1);
      }
    }
  });
  return pattern;
}

}  // namespace heed::train
