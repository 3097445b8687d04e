// A run in a few words, for titles.
#pragma once

#include <filesystem>
#include <string>

#include "train/config/config.hpp"

namespace heed::train {

// "ngram, order 3, vocabulary 32", "shakespeare.txt, char tokens"
std::string dataset_text(const Config& config);

// "2 layers, d_model 64, 4 heads"
std::string model_text(const nn::GptConfig& model);

// The last name of the absolute path: "tiny" for "runs/tiny/", and for "." in that folder.
std::string folder_name(const std::filesystem::path& folder);

}  // namespace heed::train
