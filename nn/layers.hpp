// Linear and Norm: an operation with its parameters.
#pragma once

#include "autograd/ops/layer_norm.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/ops/rms_norm.hpp"
#include "nn/gpt_config.hpp"
#include "nn/parameter_store.hpp"

namespace heed::nn {

struct LinearShape {
  int64_t inputs = 0, outputs = 0;
  bool bias = true;
  double init_std = 0.02;
};

// y = x weight^T + bias; weight (outputs, inputs) initialised from N(0, init_std^2), bias with 0 or absent.
class Linear {
 public:
  Linear(ParameterStore& store, const std::string& name, const LinearShape& shape)
      : weight_(store.declare(name + ".weight", {shape.outputs, shape.inputs}, {.std = shape.init_std})) {
    if (shape.bias) bias_ = store.declare(name + ".bias", {shape.outputs}, {});
  }
  Tensor operator()(const Tensor& x) const { return linear(x, weight_.tensor(), bias_.tensor(), bias_.copy()); }
  // gelu(y), as one operation
  Tensor with_gelu(const Tensor& x) const { return linear_gelu(x, weight_.tensor(), bias_.tensor(), bias_.copy()); }
  // The `count` output features from `first` on, as a contiguous tensor. No gradient reaches the weight: not for
  // training.
  Tensor part(const Tensor& x, int64_t first, int64_t count) const {
    const int64_t inputs = weight_.tensor().shape()[1];
    return linear(x, weight_.tensor().slice(first * inputs, {count, inputs}),
                  bias_ ? bias_.tensor().slice(first, {count}) : Tensor(),
                  bias_.copy() ? bias_.copy().slice(first, {count}) : Tensor());
  }

 private:
  Parameter weight_, bias_;
};

// The norm of the config, LayerNorm or RMSNorm, over the last dimension of x (..., C); gain initialised with 1, bias
// with 0; either may be absent.
class Norm {
 public:
  Norm(ParameterStore& store, const std::string& name, const GptConfig& config)
      : kind_(config.norm), eps_(config.norm_eps) {
    if (config.norm_gain) weight_ = store.declare(name + ".weight", {config.d_model}, {.constant = 1});
    if (config.norm_has_bias()) bias_ = store.declare(name + ".bias", {config.d_model}, {});
  }
  Tensor operator()(const Tensor& x) const {
    if (kind_ == NormKind::rms) return rms_norm(x, weight_.tensor(), eps_);
    return layer_norm(x, weight_.tensor(), bias_.tensor(), eps_);
  }

 private:
  Parameter weight_, bias_;
  NormKind kind_;
  double eps_;
};

}  // namespace heed::nn
