// The README.md of an exported model: what it is, how to load it, how it was trained.
#pragma once

#include <string>

#include "train/huggingface/model_class.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

std::string model_card(const ModelClass& one, const LoadedModel& loaded, const CheckpointContent& content);

}  // namespace heed::train
