// What a run needs of memory: estimated from its config before anything is made, measured after the first step.
#pragma once

#include <string>

#include "autograd/core/buffer.hpp"
#include "autograd/core/host_limits.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// In bytes. On CUDA the first four are on the device and the last three on the host.
struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // of one micro-batch
  int64_t checkpoint = 0;   // made in memory at each save, by rank 0
  int64_t data = 0;         // the tokens of a text, or the tables of a synthetic source
  std::string data_keys;    // what lowers it
  int64_t batch = 0;        // the token ids of a step

  // A save comes when no activations are alive, and takes their memory where there is no other (make_room()).
  int64_t total() const;
};

// From the config alone. Where model.vocab_size is not known yet (a text that has not been read), the smallest one that
// is possible counts. data is estimated by the size of the file: a text has at most as many tokens as bytes.
MemoryEstimate estimate_memory(const Config& config, Device device);

// The estimate by category, each with the keys that lower it; several lines.
std::string memory_table(const MemoryEstimate& estimate);
// The measured peaks in one line.
std::string measured_memory(const MemoryReport& report);

// A category of the estimate and the keys that lower it.
struct MemoryItem {
  const char* name = "";
  int64_t bytes = 0;
  std::string keys;
};
std::vector<MemoryItem> memory_items(const MemoryEstimate& estimate);

}  // namespace heed::train
