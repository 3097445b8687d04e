// Is there memory for a run? Asked before anything large is made, so that a run that cannot fit ends with one line
// instead of being killed.
#pragma once

#include <optional>
#include <string>

#include "autograd/core/host_limits.hpp"
#include "train/trainer/memory_table.hpp"

namespace heed::train {

// What the host has to hold of an estimate. On CUDA that is the data, the batch and the checkpoint.
struct HostMemory {
  int64_t certain = 0;      // cannot fit with less
  int64_t expected = 0;     // at the peak
  int64_t loaded_data = 0;  // that has its memory already and is counted in neither, by estimate
  MemoryItem largest;       // the largest item of the estimate, loaded data included
};

// data_is_loaded: the data has its memory already, and is not counted. saves: this process writes checkpoints.
//
// certain is what is known to the byte (parameters, gradients, optimizer, checkpoint, batch, the tables of a synthetic
// source, and on the CPU the 16 MiB that small tensors are cut from) and a part of what is estimated: 0.7 of the
// activations, whose estimate may be off by 0.3, and a quarter of the tokens of a text by characters or none by bpe,
// whose number is not known before. Of activations and checkpoint the larger one counts, since they follow each other.
HostMemory host_memory(const Config& config, Device device, bool data_is_loaded, bool saves);

// Throws MemoryError (exit code 5) where `certain` is more than the limit leaves, swap included: one line with what is
// needed, what there is, what decides, and the keys that lower the largest part. Returns a notice where `expected` is
// above 90 % of what is free, else nothing.
std::optional<std::string> check_host_memory(const HostMemory& need, const std::optional<MemoryLimit>& limit);

// The check against the limits of this process. A notice goes to stderr at once, since what follows may be killed: that
// of rank 0, once the data is loaded. Ranks on one machine are not added up: each looks at its own need.
void require_host_memory(const Config& config, Device device, bool data_is_loaded, bool saves);

// When all but activations has its memory: is there room for a checkpoint? Now it costs nothing to say no, after the
// last step it would cost the run. Throws MemoryError.
void require_checkpoint_memory(const Config& config, Device device);

// Names the keys of training in the errors of the memory pools, by what the memory is for.
void advise_on_training_memory();

}  // namespace heed::train
