// The logits of a model folder of transformers, computed in f64 by plain loops, from config.json and the safetensors
// files alone. It shares no code with the export or with the model, so that an error of either shows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heed::train {

class PlainModel {
 public:
  // Throws DataError if the files are not those of a model class that heed exports to, or if config.json has a value
  // that is not supported: one line with the file and the key or tensor.
  explicit PlainModel(const std::string& folder);
  ~PlainModel();

  // (T, V), for the T tokens of one sequence from position 0 on.
  std::vector<double> logits(std::span<const int32_t> tokens) const;

  struct Parts;  // train/huggingface/plain_parts.hpp

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace heed::train
