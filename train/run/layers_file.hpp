// layers.csv: with train.log_layers, the norms of each layer in every train.log_interval-th step.
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "train/trainer/parameter_norms.hpp"

namespace heed::train {

inline constexpr const char* kLayersFile = "layers.csv";
inline constexpr std::string_view kLayersHeader = "step,layer,weight_norm,grad_norm,update_norm\n";

class LayersFile {
 public:
  // Creates the file with its header. For a run that resumes after `resumed_step` steps, it keeps the rows up to that
  // step. Throws CheckpointError if the file cannot be written, or if it exists and is not a layers.csv.
  LayersFile(const std::filesystem::path& path, std::optional<int64_t> resumed_step);
  ~LayersFile();
  LayersFile(const LayersFile&) = delete;
  LayersFile& operator=(const LayersFile&) = delete;

  // Writes the rows of a step to the file. Throws CheckpointError.
  void write(int64_t step, const std::vector<ParameterNorms>& layers);

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace heed::train
