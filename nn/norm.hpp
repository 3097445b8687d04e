// LayerNorm over the last dimension; gain initialised with 1, bias with 0 or absent.
#pragma once

#include "autograd/ops/layer_norm.hpp"
#include "nn/parameter_store.hpp"

namespace heed::nn {

class LayerNorm {
 public:
  LayerNorm(ParameterStore& store, const std::string& name, int64_t width, bool bias, double eps)
      : weight_(store.declare(name + ".weight", {width}, {.constant = 1})), eps_(eps) {
    if (bias) bias_ = store.declare(name + ".bias", {width}, {});
  }
  Tensor operator()(const Tensor& x) const { return layer_norm(x, weight_.tensor(), bias_.tensor(), eps_); }

 private:
  Parameter weight_, bias_;
  double eps_;
};

}  // namespace heed::nn
