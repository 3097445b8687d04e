// The Euclidean norms of the weights, gradients and updates of each layer over a training step.
//
// A layer is the embedding, a Transformer block, or the last norm and the output head; tied weights belong to the
// embedding.
#pragma once

#include <string>
#include <vector>

#include "nn/parameter_store.hpp"

namespace heed::train {

// The layer of a parameter: "embedding", "block 0" … or "output head".
std::string layer_name(const std::string& parameter);

struct ParameterNorms {
  std::string layer;
  double weight = 0;  // after the step
  double grad = 0;    // of the mean loss of the step, before clipping
  double update = 0;  // of the weights after the step minus those before it
};

// Reads all weights and gradients on the host, and keeps a copy of the weights.
class ParameterNormMeter {
 public:
  // Copies the weights (the master weights in bf16). To be called before the step.
  explicit ParameterNormMeter(const nn::ParameterStore& store);
  // To be called after the step, before the gradients are set to zero. In the order of the layers.
  std::vector<ParameterNorms> measure() const;

 private:
  const nn::ParameterStore& store_;
  std::vector<Tensor> before_;  // the weights of each entry of the store, on the CPU
};

}  // namespace heed::train
