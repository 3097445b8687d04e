// The table of cosines and sines that the operation rope() reads (autograd/ops/rope.hpp).
#pragma once

#include <vector>

#include "autograd/tensor.hpp"
#include "nn/gpt_config.hpp"

namespace heed::nn {

// theta_i = rope_base^(-2i / R) for i = 0 … R/2 - 1, R = config.rope_columns(), scaled for sequences that are longer by
// rope_scaling_factor than those the model was made for:
//   linear   theta_i / factor, as if positions were divided (Chen et al. 2023, arXiv 2306.15595)
//   llama3   by the turns n = original theta_i / (2 pi) in rope_original_seq_len positions: theta_i for n >= 4,
//            theta_i / factor for n <= 1, and in between s theta_i + (1 - s) theta_i / factor with s = (n - 1) / (4 -
//            1) (Llama 3.1: arXiv 2407.21783)
std::vector<double> rope_frequencies(const GptConfig& config);

// (rows, R), f32 (f64 for f64): row t is cos(t theta_i) for all i, then sin(t theta_i). The angles are computed in f64:
// their error is below 1e-9 up to position 10^6. For position = "rope".
Tensor rope_table(const GptConfig& config, int64_t rows, DType dtype, Device device);

}  // namespace heed::nn
