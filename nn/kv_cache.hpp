// KV cache for generation (Gpt::next_logits): with the keys and values of all tokens so far, the next token of a
// sequence needs only one new row of activations. No graph is kept.
//   per layer: keys, values (B, memory_rows, Hkv D), the first rows() rows are valid; dtype as computed
//
// A layer with a sliding window of w tokens holds its last rows only, at least the w - 1 that the next token attends to
// (rolling buffer: Mistral 7B, arXiv 2310.06825). When its memory is full, these move to the front.
//
// The B sequences are aligned at their last token: sequence b begins with padding()[b] rows that do not belong to it
// (left padding). The distance between two tokens of a sequence is therefore the distance between their rows, which is
// all that the causal mask and relative positions depend on.
#pragma once

#include <string>
#include <vector>

#include "autograd/tensor.hpp"
#include "nn/gpt_config.hpp"

namespace heed::nn {

class KvCache {
 public:
  // For `batch` sequences of models of this config, with room for `capacity` rows each; 0: config.seq_len. Memory is
  // allocated by the first append() to a layer. Throws ShapeError if batch < 1 or capacity < 0.
  explicit KvCache(const GptConfig& config, int64_t batch = 1, int64_t capacity = 0);

  int64_t batch() const { return batch_; }
  int64_t length() const { return length_; }  // cached rows of each sequence, with its padding
  int64_t capacity() const { return capacity_; }
  int64_t memory_rows() const;  // of each sequence, in all layers
  // Of each sequence; empty: there is no padding.
  const std::vector<int64_t>& padding() const { return padding_; }
  // The maximum number of rows of one append(): capacity() unless a layer drops rows.
  int64_t max_fresh() const { return max_fresh_; }
  // Rows that a layer holds: length(), or the last ones of a layer with a sliding window.
  int64_t rows(int64_t layer) const { return length_ - layers_.at(static_cast<size_t>(layer)).dropped; }
  // For each sequence, the number of rows without padding in what append() of `fresh` rows to this layer returned (call
  // this before advance()): i32 (B), for AttentionOptions::lengths with PaddingSide::left. An empty handle without
  // padding.
  Tensor lengths(int64_t layer, int64_t fresh, Device device) const;

  // Removes all tokens but keeps the memory. padding: that of the sequences that will be appended, B values of at least
  // 0, or none. Throws ShapeError.
  void clear(std::vector<int64_t> padding = {});
  // Removes all sequences but these, which are given in ascending order, at least one of them. Throws ShapeError.
  void keep(const std::vector<int64_t>& sequences);

  struct KeysAndValues {
    Tensor keys, values;
  };
  struct Layer : KeysAndValues {
    int64_t window = 0;       // sliding window; 0: none
    int64_t memory_rows = 0;  // of each sequence
    int64_t dropped = 0;      // tokens before the first row
  };
  // Appends the keys and values (B, T, Hkv D) of new tokens to those of the layer. Returns the layer, of which the
  // first rows() + T rows are valid. Throws ShapeError for a wrong layer or shape, more than capacity() rows in all or
  // max_fresh() at once; DTypeError if the dtype differs from the cached one.
  const Layer& append(int64_t layer, const KeysAndValues& fresh);
  // Increases length() by `rows`; to be called once all layers have appended them. Throws ShapeError.
  void advance(int64_t rows);

  // The memory of all layers, 0 before the first append().
  int64_t bytes() const;
  // "12 layers x 1024 tokens x 2 x 768 f32 = 72.0 MiB"; with a sliding window "(9 layers x 383 tokens + 3 layers x …"
  std::string describe() const;

 private:
  void make_room(Layer& layer, int64_t fresh);

  int64_t batch_, capacity_, columns_, max_fresh_;
  int64_t length_ = 0;
  std::vector<int64_t> padding_;
  std::vector<Layer> layers_;
};

// The memory of the cache of one sequence of seq_len tokens.
int64_t kv_cache_bytes(const GptConfig& config, DType dtype);

}  // namespace heed::nn
