// Memory of a run: estimated from its config before any allocation, measured after the first step.
#pragma once

#include <string>

#include "autograd/core/buffer.hpp"
#include "autograd/core/host_limits.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// In bytes. On CUDA, parameters, gradients, optimizer state and activations are on the device; checkpoint, data and
// batch are on the host.
struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // of one micro-batch
  int64_t checkpoint = 0;   // built in memory at each save, by rank 0
  int64_t data = 0;         // token ids of a text, or tables of a synthetic dataset
  std::string data_keys;    // config keys that reduce it
  int64_t batch = 0;        // token ids of a step

  // A checkpoint is saved when no activations are alive, and reuses their memory if no other is free (make_room()).
  int64_t total() const;
};

// From the config alone. If model.vocab_size is not known yet (a text that has not been read), the smallest possible
// one is assumed. The data of a text is estimated from its file size: a text has at most as many tokens as bytes.
MemoryEstimate estimate_memory(const Config& config, Device device);

// The estimate by category, each with the keys that reduce it; several lines.
std::string memory_table(const MemoryEstimate& estimate);
// The measured peaks in one line.
std::string measured_memory(const MemoryReport& report);

// A category of the estimate and the keys that reduce it.
struct MemoryItem {
  const char* name = "";
  int64_t bytes = 0;
  std::string keys;
};
std::vector<MemoryItem> memory_items(const MemoryEstimate& estimate);

}  // namespace heed::train
