// The variants of the model, read from the schema: a check of every variant needs no other list.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/gpt_config.hpp"

namespace heed::train {

// Each key of [model] that has only a few values (a choice, or true and false), set alone to each value that is not
// that of `base`: "norm = \"rms\"" and the model with it. A key that has an effect only with some value of another key
// gets that value, too. `base` must allow each of them: a head size that is even, more than one head.
std::vector<std::pair<std::string, nn::GptConfig>> model_variants(const nn::GptConfig& base);

}  // namespace heed::train
