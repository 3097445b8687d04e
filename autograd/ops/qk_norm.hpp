// RMSNorm of each query and key head of packed queries, keys and values; the values pass through.
//   qkv (..., (H + 2 Hkv) D) f32|bf16|f64: query heads, key heads, value heads
//   q_weight, k_weight (D) as qkv (f32 for bf16), optional: 1; the query heads share one, the key heads the other
//   y as qkv: each query and key head x (D) becomes x * rstd * weight, rstd = 1 / sqrt(mean of x^2 + eps)
// For bf16, sums and rstd are f32, and y is rounded once. Saves qkv, both weights and rstd for backward. Throws
// ShapeError, DTypeError, DeviceError, ValueError (eps, numbers of heads). As in Qwen3 (arXiv 2505.09388); Henry et al.
// 2020 (arXiv 2010.04245) introduced the norm of queries and keys.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

struct QkNormOptions {
  int64_t num_heads = 1, num_kv_heads = 1;  // H, Hkv
  double eps = 1e-5;
};
Tensor qk_norm(const Tensor& qkv, const Tensor& q_weight, const Tensor& k_weight, const QkNormOptions& options);

struct QkNormForward {
  TensorRef y = {}, q_rstd = {}, k_rstd = {};  // q_rstd (rows, H), k_rstd (rows, Hkv)
  ConstTensorRef qkv = {}, q_weight = {}, k_weight = {};
  QkNormOptions options = {};
};
struct QkNormBackward {
  GradientSink dqkv = {}, dq_weight = {}, dk_weight = {};
  ConstTensorRef dy = {}, qkv = {}, q_weight = {}, k_weight = {}, q_rstd = {}, k_rstd = {};
  QkNormOptions options = {};
};

namespace cpu {
void qk_norm_forward(Context& context, const QkNormForward& p);
void qk_norm_backward(Context& context, const QkNormBackward& p);
}  // namespace cpu
namespace cuda {
void qk_norm_forward(Context& context, const QkNormForward& p);
void qk_norm_backward(Context& context, const QkNormBackward& p);
}  // namespace cuda

}  // namespace heed
