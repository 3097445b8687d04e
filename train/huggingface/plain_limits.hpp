// What PlainModel does not compute.
#pragma once

#include "data/io/json_reader.hpp"

namespace heed::train {

// Throws DataError if config.json has a value that changes the logits of the class in transformers and that PlainModel
// does not compute, or lacks a key whose default in transformers is such a value: one line with the key.
void refuse_what_plain_model_lacks(const data::JsonObject& config);

}  // namespace heed::train
