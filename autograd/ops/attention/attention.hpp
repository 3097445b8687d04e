// y = softmax(scale * q k^T + mask) v for each head, by tiles: the (Tq, Tk) weights are never held, memory is O(T).
//
//   q (B, Tq, H * D)  k, v (B, Tk, Hkv * D)  f32|bf16|f64, all of one dtype   y (B, Tq, H * D)   log-sum-exp (B, H,
//   Tq), f32 for bf16
// Query head h attends to kv head h / (H / Hkv): groups of neighbours share a kv head.
// Causal, bottom-right aligned: query i sees keys j <= i + Tk - Tq, so the last query sees the last key.
// lengths: sequence b has lengths[b] valid keys, the first ones or, with PaddingSide::left, the last ones. Where Tq ==
// Tk queries and keys are the same positions, so the queries at padded positions are padding too; else every query is
// valid. A query that is padding or sees no key gives exactly 0 (log-sum-exp +inf), and gradients of exactly 0. What is
// masked is skipped, not multiplied by 0: a NaN there changes nothing. Dropout on the weights after the softmax: weight
// (b, h, i, j) is kept, times 1 / (1 - p), iff word >= round(p * 2^32); word ((row * H + h) * Tq + i) * ceil4(Tk) + j
// of the stream, row = first_row + b.
//
// Softmax and sums in the dtype, f32 for bf16. Keeps q, k, v, y and the log-sum-exp; backward computes the weights
// again. Throws ShapeError, DTypeError, ValueError. Dao 2023, "FlashAttention-2" (arXiv 2307.08691); online softmax:
// Milakov, Gimelshein 2018 (arXiv 1805.02867).
#pragma once

#include <type_traits>

#include "autograd/core/context.hpp"
#include "autograd/core/philox.hpp"
#include "autograd/tensor.hpp"

namespace heed {

enum class PaddingSide { right, left };

struct AttentionOptions {
  int64_t num_heads = 1;
  int64_t num_kv_heads = 0;  // 0: as num_heads; must divide it
  bool causal = true;
  double scale = 0;     // 0: 1 / sqrt(D)
  Tensor lengths = {};  // i32 (B), or none: all keys are valid. They are checked on the host: on CUDA it waits for them
  PaddingSide side = PaddingSide::right;
  double dropout = 0;
  RandomStream random = {};
  int64_t first_row = 0;  // row of the global batch that batch element 0 is
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
// The same on one tensor qkv (B, T, (H + 2 Hkv) * D), laid out as [q heads | k heads | v heads], as one projection
// makes it; its gradient is one tensor too, so nothing is split or joined.
Tensor attention_packed(const Tensor& qkv, const AttentionOptions& options);

// What kernels see. Element (b, t, h, c) of a tensor of heads is data[b * batch_stride + t * row_stride +
// h * head_stride + c], so packed projections and caches need no copy. No data: not needed.
template <class Data>
struct HeadsOf {
  Data* data = nullptr;
  int64_t batch_stride = 0, row_stride = 0, head_stride = 0;

  explicit operator bool() const { return data != nullptr; }
  template <class T>
  auto* row(int64_t b, int64_t t, int64_t h) const {
    using Element = std::conditional_t<std::is_const_v<Data>, const T, T>;
    return static_cast<Element*>(data) + b * batch_stride + t * row_stride + h * head_stride;
  }
};
using ConstHeads = HeadsOf<const void>;
struct GradientHeads : HeadsOf<void> {
  bool add = false;  // as in GradientSink
};

struct AttentionProblem {
  DType dtype = DType::f32;
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_size = 0;
  bool causal = true;
  double scale = 1;
  ConstTensorRef lengths = {};
  PaddingSide side = PaddingSide::right;
  double dropout = 0;
  RandomStream random = {};
  int64_t first_row = 0;
};
struct AttentionForward {
  AttentionProblem problem = {};
  HeadsOf<void> y = {};
  TensorRef lse = {};
  ConstHeads q = {}, k = {}, v = {};
};
struct AttentionBackward {
  AttentionProblem problem = {};
  GradientHeads dq = {}, dk = {}, dv = {};
  ConstHeads dy = {}, y = {}, q = {}, k = {}, v = {};
  ConstTensorRef lse = {};
};

namespace cpu {
void attention_forward(Context& context, const AttentionForward& p);
void attention_backward(Context& context, const AttentionBackward& p);
}  // namespace cpu
namespace cuda {
void attention_forward(Context& context, const AttentionForward& p);
void attention_backward(Context& context, const AttentionBackward& p);
}  // namespace cuda

}  // namespace heed
