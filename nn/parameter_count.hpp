// The parameters of a GPT, counted from its config without making it.
#pragma once

#include "nn/gpt_config.hpp"

namespace heed::nn {

struct ParameterCount {
  double matrices = 0;  // of two dimensions: group 0 of the ParameterStore
  double vectors = 0;   // biases and norms: group 1
  double all() const { return matrices + vectors; }
};

// What Gpt(config).parameters() would count. config.vocab_size must be known. In double: exact up to 2^53, and no
// config makes it overflow.
ParameterCount count_parameters(const GptConfig& config);

}  // namespace heed::nn
