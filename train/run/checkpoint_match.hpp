// Checks that a checkpoint is used with the keys, the data and the model that it belongs to. A number that is computed
// from other ones is a number of another experiment.
#pragma once

#include <string>
#include <vector>

#include "data/source.hpp"
#include "nn/parameter_store.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// The only keys that may be set on top of a checkpoint's config: they change where the data lies and how the model is
// computed, not what is computed.
//   data.path, train.device, train.precision, train.batch_size, train.micro_batch_size
// Throws ConfigError for an override (`table.key=value`) of any other key, with the checkpoint's value and this list.
// Overrides that name no key pass: parse_config() refuses them.
void require_settable_keys(const Config& saved, const std::vector<std::string>& overrides);

// How the data differs from what the checkpoint was trained on: "541 tokens, split 48/12/0, … then, 560 tokens, … now".
// Compares the tokenizer and the fingerprint (data/fingerprint.hpp); empty if both are equal, and where the config
// alone determines the data. Throws CheckpointError if the checkpoint does not hold them.
std::string data_difference(const CheckpointContent& content, const data::Source& source);

// Throws CheckpointError for the first tensor of the file that is neither a parameter of this model nor the optimizer's
// state of one: the file then holds another model.
void require_no_foreign_tensors(const CheckpointContent& content, const nn::ParameterStore& store);

}  // namespace heed::train
