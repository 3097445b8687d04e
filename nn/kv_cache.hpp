// KV cache of one sequence for generation (Gpt::next_logits): computing the next token needs only one new row of
// activations. No graph is kept.
//   per layer: keys, values (1, seq_len, Hkv D), the first length() rows are valid; dtype as the model computes them
#pragma once

#include <vector>

#include "autograd/tensor.hpp"
#include "nn/gpt_config.hpp"

namespace heed::nn {

class KvCache {
 public:
  // For models of this config. Memory is allocated by the first append() to a layer.
  explicit KvCache(const GptConfig& config);

  int64_t length() const { return length_; }  // cached tokens
  int64_t capacity() const { return capacity_; }
  // Removes all tokens but keeps the memory.
  void clear() { length_ = 0; }

  struct KeysAndValues {
    Tensor keys, values;
  };
  // Appends the keys and values (1, T, Hkv D) of new tokens to those of the layer. Returns all of them,
  // (1, length() + T, Hkv D), as views that are valid until the next append. Throws ShapeError for a wrong layer or
  // shape or more than capacity() tokens; DTypeError if the dtype differs from the cached one.
  KeysAndValues append(int64_t layer, const KeysAndValues& fresh);
  // Increases length() by `tokens`; to be called once all layers have appended them. Throws ShapeError.
  void advance(int64_t tokens);

 private:
  int64_t capacity_, columns_;
  int64_t length_ = 0;
  std::vector<KeysAndValues> layers_;
};

}  // namespace heed::nn
