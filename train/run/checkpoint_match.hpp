// Checks that a checkpoint is used with the config keys, the data and the model that it was trained with. A metric that
// is computed with others belongs to another experiment.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "nn/parameter_store.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// The only keys that may be overridden on top of a checkpoint's config: they change where the data is stored and how
// the model is computed, not what is computed.
//   data.path, train.device, train.precision, train.batch_size, train.micro_batch_size
// Throws ConfigError for an override (`table.key=value`) of any other key, with the reason, such as the checkpoint's
// value, and this list. Overrides that name no key are accepted here: parse_config() rejects them.
void require_settable_keys(const Config& saved, const std::vector<std::string>& overrides);

// How the data differs from the data that the checkpoint was trained on: "checkpoint: 541 tokens, split 48/12/0, …;
// current: 560 tokens, …". Compares the tokenizer and the fingerprint (data/fingerprint.hpp). Empty if both are equal,
// and for data that the config alone determines. Throws CheckpointError if the checkpoint has no fingerprint.
std::string data_difference(const CheckpointContent& content, const data::Dataset& dataset);

// Throws CheckpointError for the first tensor of the file that is neither a parameter of this model nor optimizer state
// of one: the file then belongs to another model.
void require_no_foreign_tensors(const CheckpointContent& content, const nn::ParameterStore& store);

}  // namespace heed::train
