// The tensors of a model class, computed from the parameters of a heed model.
//
// If the class lacks a setting, the weights express it; the logits change only by rounding:
//   muP                 the scale of attention scores goes into the queries, or into the gain of their norm;
//                       the output multiplier goes into the gain of the last norm, or into the head
//   no gain, no bias    gains are ones, biases are zeros
//   attention only      the MLP has one feature, with weights 0
//   sinusoidal, none    the position embeddings are the sinusoidal table, or zeros
//   grouped KV heads    the KV heads are repeated, for classes without grouped-query attention
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/huggingface/model_class.hpp"
#include "train/huggingface/model_weights.hpp"

namespace heed::train {

struct ExportTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::function<Matrix()> values;  // computed when it is called, so that one tensor at a time is in memory
};

// The class must support all settings of weights.model(), see unsupported_settings(). The tensors keep references to
// `one` and `weights`.
std::vector<ExportTensor> export_tensors(const ModelClass& one, const ModelWeights& weights);

// Whether the head of the exported model is its token embedding.
bool has_tied_head(const ModelClass& one, const nn::GptConfig& model);

}  // namespace heed::train
