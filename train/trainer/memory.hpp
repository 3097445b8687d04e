// Memory of a run: estimated from its config before any allocation, checked against the memory limits, so that a run
// that cannot fit ends with a one-line error instead of being killed, and measured after the first step.
#pragma once

#include <optional>
#include <string>

#include "autograd/core/buffer.hpp"
#include "autograd/core/host_limits.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// In bytes. On CUDA, parameters, gradients, optimizer state and activations are on the device; checkpoint, data and
// batch are on the host.
struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // of one micro-batch, including one chunk of logits
  int64_t checkpoint = 0;   // tensors that rank 0 copies for a save, and the buffers of the file
  int64_t data = 0;         // token ids of a text, or tables of a synthetic dataset
  std::string data_keys;    // config keys that reduce it
  int64_t batch = 0;        // token ids of a step
  int64_t layer_norms = 0;  // host copy of the weights before a step, with train.log_layers

  // A checkpoint is saved when no activations are alive, and reuses their memory if no other is free (make_room()).
  int64_t total() const;
};

// From the config alone. If model.vocab_size is not known yet (a text that has not been read), the smallest possible
// one is assumed. The data of a text is estimated from its file size: a text has at most as many tokens as bytes.
MemoryEstimate estimate_memory(const Config& config, Device device);

// model.vocab_size, or the smallest one that the config allows.
int64_t least_vocab_size(const Config& config);

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

// The host memory that an estimate needs. On CUDA that is data, batch, checkpoint and layer norms.
struct HostMemory {
  int64_t certain = 0;      // lower bound: the run does not fit into less
  int64_t expected = 0;     // at the peak
  int64_t loaded_data = 0;  // estimate of the data that is in memory already; counted in neither
  MemoryItem largest;       // the largest item of the estimate, loaded data included
};

// data_is_loaded: the data is in memory already and is not counted. saves: this process writes checkpoints.
//
// `certain` is the sum of what is known exactly (parameters, gradients, optimizer state, checkpoint, batch, the tables
// of a synthetic dataset, and on the CPU the 16 MiB from which small tensors are allocated) and of a part of what is
// estimated: 0.7 of the activations, whose estimate may be off by 0.3, and of the tokens of a text a quarter for the
// char tokenizer and none for bpe, since their number is not known before. Only the larger of activations and
// checkpoint counts, since they are not in memory at the same time.
HostMemory host_memory(const Config& config, Device device, bool data_is_loaded, bool saves);

// Throws MemoryError (exit code 5) if `certain` exceeds the free memory of the limit, swap included. The message is one
// line with the memory needed, the memory available, the limit that applies, and the keys that reduce the largest item.
// Returns a notice if `expected` exceeds 90 % of the free memory, else nullopt.
std::optional<std::string> check_host_memory(const HostMemory& need, const std::optional<MemoryLimit>& limit);

// Checks against the memory limits of this process. Rank 0 writes a notice to stderr at once, since the process may be
// killed later; it does so only when the data is loaded. Ranks on one machine are not added up: each checks its own
// need.
void require_host_memory(const Config& config, Device device, bool data_is_loaded, bool saves);

// Called when everything except the activations is allocated: checks that a checkpoint will fit. Failing now costs
// nothing; failing after the last step would lose the run. Throws MemoryError.
void require_checkpoint_memory(const Config& config, Device device);

// Sets the advice in the out-of-memory errors of the memory pools: the training config keys that reduce each memory
// category.
void advise_on_training_memory();

}  // namespace heed::train
