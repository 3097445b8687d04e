// What PlainModel computes with: the tensors of a folder in one common form.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/huggingface/plain_model.hpp"

namespace heed::train {

// y = W x + b, W (out, in); without b 0.
struct PlainLinear {
  int64_t out = 0, in = 0;
  std::vector<float> weight, bias;
};

// A norm layer. is_there = false: there is none, and its input is passed on. Without gain: ones; without bias: zeros.
struct PlainNorm {
  std::vector<double> gain, bias;
  bool is_there = false;
};

struct PlainLayer {
  PlainNorm attention_norm, post_attention_norm, mlp_norm, post_mlp_norm, q_norm, k_norm;
  PlainLinear q, k, v, projection, gate, up, down;  // gate: empty unless gated
  int64_t window = 0;                               // 0: none
};

struct PlainModel::Parts {
  int64_t vocab_size = 0, width = 0, heads = 0, kv_heads = 0, head_size = 0, positions = 0;
  double eps = 0, score_scale = 0, embedding_scale = 1, softcap = 0;
  bool is_rms = false, is_post = false, rotates_backward = false, rotates_before_norm = false;
  std::function<double(double)> activation;
  std::vector<double> frequencies;  // of RoPE: one for each pair of rotated columns
  std::vector<double> slopes;       // of ALiBi: one for each head
  std::vector<float> embedding, position_table;
  PlainNorm embedding_norm, last_norm;
  std::vector<PlainLayer> layers;
  PlainLinear head;
};

// Reads config.json and the tensors. Throws DataError.
std::unique_ptr<PlainModel::Parts> read_plain_parts(const std::string& folder);

}  // namespace heed::train
