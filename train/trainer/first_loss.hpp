// The range in which the loss of a freshly initialized model lies if nothing is wrong.
#pragma once

#include "nn/gpt_config.hpp"

namespace heed::train {

struct LossRange {
  double lowest = 0, highest = 0;
};

// The range of the mean loss over a batch, in nats, for a freshly initialized model of this shape with the default
// init_std, whatever the data.
LossRange first_loss_range(const nn::GptConfig& model);

}  // namespace heed::train
