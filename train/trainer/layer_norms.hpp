// The Euclidean norms of the weights, gradients and changes of each layer over a training step.
//
// A layer is the embedding, a Transformer block, or the last norm and the output head; tied weights belong to the
// embedding.
#pragma once

#include <string>
#include <vector>

#include "nn/parameter_store.hpp"

namespace heed::train {

// The layer of a parameter: "embedding", "block 0" … or "head".
std::string layer_name(const std::string& parameter);

struct LayerNorms {
  std::string layer;
  double weight = 0;    // after the step
  double gradient = 0;  // of the mean loss of the step, before clipping
  double change = 0;    // of the weights in the step
};

// Reads all weights and gradients on the host, and keeps a copy of the weights.
class LayerNormMeter {
 public:
  // Copies the weights (the master weights in bf16). To be called before the step.
  explicit LayerNormMeter(const nn::ParameterStore& store);
  // To be called after the step, before the gradients are set to zero. In the order of the layers.
  std::vector<LayerNorms> measure() const;

 private:
  const nn::ParameterStore& store_;
  std::vector<std::vector<double>> before_;  // of each entry of the store
};

}  // namespace heed::train
