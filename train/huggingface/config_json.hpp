// config.json and generation_config.json of an exported model.
//
// For transformers 4 and 5: RoPE is written both as rope_theta and rope_scaling (4) and as rope_parameters (5).
#pragma once

#include <optional>
#include <string>

#include "autograd/core/dtype.hpp"
#include "train/huggingface/model_class.hpp"

namespace heed::train {

// model: with its vocabulary size. weights: the dtype of the stored tensors. end_token: the token that ends a text.
std::string config_json(const ModelClass& one, const nn::GptConfig& model, DType weights,
                        std::optional<int32_t> end_token);
std::string generation_config_json(std::optional<int32_t> end_token);

}  // namespace heed::train
