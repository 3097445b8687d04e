#include "train/inspect/attention_pattern.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/attention/alibi.hpp"
#include "autograd/ops/attention/mask.hpp"

namespace heed::train {
namespace {

// Replaces `count` numbers by their softmax.
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

// Positions, i32, on the host.
std::vector<int32_t> positions_of(const Tensor& tensor) {
  if (!tensor) return {};
  const std::vector<double> values = tensor.values();
  return {values.begin(), values.end()};
}

}  // namespace

Tensor attention_pattern(const Tensor& qkv, const AttentionOptions& options) {
  const int64_t num_heads = options.num_heads,
                num_kv_heads = options.num_kv_heads == 0 ? options.num_heads : options.num_kv_heads;
  const int64_t parts = num_heads + 2 * num_kv_heads;
  require<ShapeError>(qkv.rank() == 3 && qkv.shape()[2] % parts == 0,
                      "attention_pattern: qkv has shape {}, it must be (B, T, a multiple of {})", qkv.shape(), parts);
  const int64_t batch = qkv.shape()[0], length = qkv.shape()[1], width = qkv.shape()[2], head_size = width / parts;
  const std::vector<double> values = qkv.values();
  const double scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(head_size)) : options.scale;
  const std::vector<int32_t> begins = positions_of(options.documents.begin), ends = positions_of(options.documents.end);
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
      const float slope = options.alibi ? alibi_slope<float>(h, num_heads) : 0.0f;
      const MaskRange<int64_t> mask =
          attention_mask<int64_t>({.queries = length,
                                   .keys = length,
                                   .length = length,
                                   .window = options.window,
                                   .causal = options.causal,
                                   .row_begin = begins.empty() ? nullptr : begins.data() + b * length,
                                   .row_end = ends.empty() ? nullptr : ends.data() + b * length})
              .of_queries;
      for (int64_t i = 0; i < length; ++i) {
        const double* const q = values.data() + (b * length + i) * width + h * head_size;
        float* const row = rows + (which * length + i) * length;
        const auto [first, last] = mask.of(i);
        for (int64_t c = 0; c < head_size; ++c) {
          const auto query = static_cast<float>(q[c] * scale);
          for (int64_t j = first; j < last; ++j) row[j] += query * k[c * length + j];
        }
        for (int64_t j = first; j < last; ++j) row[j] += slope * static_cast<float>(j - i);
        softmax(row + first, last - first);
      }
    }
  });
  return pattern;
}

}  // namespace heed::train
