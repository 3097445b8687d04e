// Scaled dot-product attention, y = softmax(scale * q k^T + mask) v for each head, computed in tiles: the (Tq, Tk)
// attention probabilities P are never stored, so memory is O(T).
//
//   q (B, Tq, H * D)  k, v (B, Tk, Hkv * D)  f32|bf16|f64, all of one dtype   y (B, Tq, H * D), as q
//   log-sum-exp (B, H, Tq), accumulation dtype
// Grouped-query attention: query head h uses kv head h / (H / Hkv), so adjacent query heads share a kv head.
// Causal mask, aligned at the bottom right: query i attends to keys j <= i + Tk - Tq, so the last query attends to the
// last key.
//
// Sliding window of w keys (causal only): position i attends to positions i - w + 1 … i, so w counts the position
// itself, as `sliding_window` of Hugging Face's configs does; tiles outside the window are skipped. Beltagy et al. 2020
// (arXiv 2004.05150).
// Documents (Tq == Tk only, see documents.hpp): a position attends only to positions of the same document.
// ALiBi (causal only, see alibi.hpp): the score of positions i and j of head h gets the bias slope(h) * (j - i).
//
// lengths: sequence b has lengths[b] valid keys, the first ones or, with PaddingSide::left, the last ones. If Tq == Tk,
// queries and keys are the same positions, so queries at padded positions are padding too; otherwise every query is
// valid. A query that is padding or has no key to attend to yields y = 0 exactly (log-sum-exp +inf) and gradients of
// exactly 0. Masked elements are skipped, not multiplied by 0: a NaN in them does not propagate.
//
// Dropout is applied to P after the softmax: P(b, h, i, j) is kept and multiplied by 1 / (1 - q) iff the 16-bit half
// ((row * H + h) * Tq + i) * ceil8(Tk) + j of the random stream is >= round(p * 2^16), with row = first_row + b and
// ceil8 = rounded up to a multiple of 8. q = round(p * 2^16) / 2^16 is the rate that this draws, see dropout.hpp.
//
// Softmax and sums use the accumulation dtype: that of q, but f32 for bf16. If bf16 instructions compute the
// products (tensor cores, or AVX512_BF16 with an even D), P and the gradients of the scores are rounded to bf16 before
// their products. Saves q, k, v, y and the log-sum-exp for backward, which recomputes P. Throws ShapeError, DTypeError,
// DeviceError, ValueError. Dao 2023, "FlashAttention-2" (arXiv 2307.08691); online softmax: Milakov, Gimelshein 2018
// (arXiv 1805.02867).
#pragma once

#include <type_traits>

#include "autograd/core/context.hpp"
#include "autograd/core/philox.hpp"
#include "autograd/ops/attention/documents.hpp"
#include "autograd/tensor.hpp"

namespace heed {

enum class PaddingSide { right, left };

struct AttentionOptions {
  int64_t num_heads = 1;
  int64_t num_kv_heads = 0;  // 0: num_heads; must divide num_heads
  bool causal = true;
  double scale = 0;  // 0: 1 / sqrt(D)
  // i32 (B), or no tensor: all keys are valid. The values are checked on the host, which synchronizes a CUDA device.
  Tensor lengths = {};
  PaddingSide side = PaddingSide::right;
  int64_t window = 0;             // sliding window; 0: none
  bool alibi = false;             // linear bias
  DocumentRanges documents = {};  // of each position, (B, T); none: the sequence is one document
  double dropout = 0;
  RandomStream random = {};
  int64_t first_row = 0;  // index in the global batch of batch element 0
  // Only the first num_keys rows of k and v are keys: those of a KV cache with room for more. 0: all rows. Not for
  // attention_packed, and without gradients only (GraphError).
  int64_t num_keys = 0;
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
// Attention on one tensor qkv (B, T, (H + 2 Hkv) * D), laid out as [q heads | k heads | v heads], the output of a fused
// QKV projection. Its gradient is one tensor too, so no split or concatenation is needed.
Tensor attention_packed(const Tensor& qkv, const AttentionOptions& options);

// Kernel arguments. Element (b, t, h, c) of a tensor of heads is data[b * batch_stride + t * row_stride + h *
// head_stride + c], so packed projections and caches need no copy. data == nullptr: the tensor is not needed.
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
  bool add = false;  // accumulate, as in GradientSink
};

struct AttentionProblem {
  DType dtype = DType::f32;
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_size = 0;
  bool causal = true;
  double scale = 1;
  ConstTensorRef lengths = {};
  PaddingSide side = PaddingSide::right;
  int64_t window = 0;
  bool alibi = false;
  ConstTensorRef document_begin = {}, document_end = {};
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
