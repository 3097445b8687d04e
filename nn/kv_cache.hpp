// The keys and values that a model has computed for the tokens of one sequence, so that one token more costs one row
// through the model.
//   each layer: keys, values (1, seq_len, Hkv D), of which the first length() rows are filled; dtype as the model gives
// For generation, see Gpt::next_logits: it keeps no graph.
#pragma once

#include <vector>

#include "autograd/tensor.hpp"
#include "nn/gpt_config.hpp"

namespace heed::nn {

class KvCache {
 public:
  // For models of this shape. Memory is taken when the first token comes.
  explicit KvCache(const GptConfig& config);

  int64_t length() const { return length_; }  // tokens that are held
  int64_t capacity() const { return capacity_; }
  // Forgets all tokens and keeps the memory.
  void clear() { length_ = 0; }

  struct KeysAndValues {
    Tensor keys, values;
  };
  // Puts the keys and values (1, T, Hkv D) of new tokens behind those of the layer and gives all of them,
  // (1, length() + T, Hkv D), as views that hold until the next append. Throws ShapeError, DTypeError where they do not
  // fit.
  KeysAndValues append(int64_t layer, const KeysAndValues& fresh);
  // Once every layer has the new tokens.
  void advance(int64_t tokens);

 private:
  int64_t capacity_, columns_;
  int64_t length_ = 0;
  std::vector<KeysAndValues> layers_;
};

}  // namespace heed::nn
