// The tensors of a model class, computed from the parameters of a heed model.
//
// What the class has no setting for moves into the weights, without a change of the logits but for rounding:
//   muP                 the scale of attention scores: into the queries, or into the gain of their norm;
//                       the output multiplier: into the gain of the last norm, or into the head
//   no gain, no bias    ones, zeros
//   attention only      an MLP of one feature with weights 0
//   sinusoidal, none    the table of sines, or zeros, as position embeddings
//   grouped kv heads    repeated, for classes that have no groups
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

// The class must support all settings of weights.model(), see unsupported_settings. The tensors keep references to
// both.
std::vector<ExportTensor> export_tensors(const ModelClass& one, const ModelWeights& weights);

// Whether the head of the exported model is its token embedding.
bool has_tied_head(const ModelClass& one, const nn::GptConfig& model);

}  // namespace heed::train
