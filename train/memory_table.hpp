// What a run needs of memory: estimated before the first update, measured after it.
#pragma once

#include <string>

#include "autograd/core/buffer.hpp"
#include "nn/gpt.hpp"
#include "train/config.hpp"

namespace heed::train {

struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  int64_t total() const { return parameters + gradients + optimizer + activations; }
};

MemoryEstimate estimate_memory(const Config& config, const nn::Gpt& model);
// The estimate by category, each with the keys that lower it; several lines.
std::string memory_table(const MemoryEstimate& estimate);
// The measured peaks in one line.
std::string measured_memory(const MemoryReport& report);
std::string human_bytes(int64_t bytes);  // "1.5 MiB"

}  // namespace heed::train
