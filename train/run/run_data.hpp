// Recreates the dataset that a checkpoint was trained on.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

struct RunData {
  std::unique_ptr<data::Dataset> dataset;  // nullptr if it cannot be made
  std::string difference;                  // from the data of the run, see data_difference(); empty if it is the same
};

// The dataset that `config`, the checkpoint's with its overrides, describes. tokenizer: the checkpoint's, or nullptr.
// progress: as for make_dataset().
RunData dataset_of_run(const Config& config, const std::shared_ptr<const data::Tokenizer>& tokenizer,
                       const CheckpointContent& content, const data::Progress& progress);

}  // namespace heed::train
