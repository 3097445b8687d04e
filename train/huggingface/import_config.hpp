// The architecture of a model folder of transformers, in heed's words.
#pragma once

#include <string>

#include "train/huggingface/model_class.hpp"

namespace heed::train {

struct ImportedConfig {
  const ModelClass* model_class = nullptr;
  nn::GptConfig model;  // with vocab_size; bias: whether any of its layers has one
  bool qkv_bias = false, projection_bias = false, mlp_bias = false;
};

// Reads config.json in the folder. Keys as written by transformers 4 or 5. Throws DataError: one line with the file,
// the key, its value and what is allowed, for a class that is not imported and for a model that heed does not compute.
ImportedConfig read_import_config(const std::string& folder);

}  // namespace heed::train
