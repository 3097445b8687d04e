// What the loss of a model before its first step can be where nothing is wrong.
#pragma once

#include "nn/gpt_config.hpp"

namespace heed::train {

struct LossRange {
  double lowest = 0, highest = 0;
};

// The mean loss over a batch, in nats, of a fresh model of this shape with the default init_std, whatever the data.
LossRange first_loss_range(const nn::GptConfig& model);

}  // namespace heed::train
