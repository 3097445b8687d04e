// Reads a model folder of transformers as the content of a heed checkpoint.
#pragma once

#include <string>
#include <vector>

#include "train/checkpoint/checkpoint_content.hpp"
#include "train/huggingface/import_config.hpp"

namespace heed::train {

struct Imported {
  ImportedConfig config;
  CheckpointContent content;  // step 0, without optimizer state
  std::string tokenizer;      // a message: which tokenizer was imported, or why none
};

// A tokenizer in the folder is taken over if it is a byte-level BPE that data/text/tokenizer_file.hpp reads.
//
// The folder has config.json and model.safetensors, or several files with an index. Biases that the class does not have
// become 0 if others exist. Throws DataError as read_import_config() and SafetensorsFolder do; for a tensor that is
// missing, has another shape or is of no use, with its name.
Imported import_model(const std::string& folder);

// The [model] table of a config file: the keys whose values are not the defaults.
std::string model_table(const nn::GptConfig& model);

}  // namespace heed::train
