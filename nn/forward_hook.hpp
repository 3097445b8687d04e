// ForwardHook: sees the activations of a forward pass, and may replace the outputs of attention heads, as the hook
// points of TransformerLens do. Without a hook there is no extra work. With recompute,
// qkv() and heads() are called again in backward.
//
// B sequences of T tokens, C = d_model, H query heads and Hkv KV heads of size D. Layers count from 0. With gradients
// enabled the tensors are part of the graph; a hook that keeps one should detach() it.
#pragma once

#include "autograd/ops/attention/attention.hpp"
#include "autograd/tensor.hpp"

namespace heed::nn {

class ForwardHook {
 public:
  virtual ~ForwardHook() = default;
  // qkv (B, T, (H + 2 Hkv) D): the packed queries, keys and values of a layer, on which attention_packed() runs with
  // these options, so after QK-norm and RoPE.
  virtual void qkv(int64_t /*layer*/, const Tensor& /*qkv*/, const AttentionOptions& /*options*/) {}
  // z (B, T, H D): the outputs of a layer's heads, before the output projection. The layer continues with the tensor
  // that is returned, of the same shape and dtype.
  virtual Tensor heads(int64_t /*layer*/, const Tensor& z) { return z; }
  // x (B, T, C): the residual stream after `blocks` Transformer blocks; 0: the embedding.
  virtual void residual(int64_t /*blocks*/, const Tensor& /*x*/) {}
};

}  // namespace heed::nn
