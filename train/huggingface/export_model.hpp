// Writes a model as a folder that transformers loads: weights, config, tokenizer, model card.
#pragma once

#include <string>
#include <vector>

#include "train/huggingface/model_class.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

struct ExportOptions {
  std::string checkpoint = {};  // a .h5 file, or a run folder, of which last.h5 is used
  std::string folder = {};
  DType dtype = DType::f32;  // of the stored weights: f32 or bf16
  EvaluatedWeights weights = EvaluatedWeights::last;
  int64_t max_file_mb = 5000;  // larger weights are split into several files
  bool verify = true;
};

// Logits computed from the written files alone (train/huggingface/plain_model.hpp) compared with those of the model.
struct Verification {
  int64_t tokens = 0;
  double largest_difference = 0, largest_logit = 0;
};

struct Exported {
  const ModelClass* model_class = nullptr;
  std::vector<std::string> files;
  std::optional<Verification> verification;
  LoadedModel loaded;
  std::string checkpoint;  // the file
};

// The folder must be a new one, or an empty one. It appears once it is complete and verified. Throws what loading the
// checkpoint throws; ConfigError if no class of transformers computes this model, or for the folder; Error if the
// verification fails.
Exported export_model(const ExportOptions& options);

}  // namespace heed::train
