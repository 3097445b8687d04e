// Number of parameters of a GPT, computed from its config without building the model.
#pragma once

#include "nn/gpt_config.hpp"

namespace heed::nn {

struct ParameterCount {
  double matrices = 0;  // two-dimensional: group 0 of the ParameterStore
  double vectors = 0;   // biases and LayerNorm gains: group 1
  double all() const { return matrices + vectors; }
};

// The count of Gpt(config).parameters(). config.vocab_size must be set. In double, which is exact up to 2^53 and does
// not overflow for any config.
ParameterCount count_parameters(const GptConfig& config);

}  // namespace heed::nn
