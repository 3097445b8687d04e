// How the runs of a sweep share the processors or the CUDA devices of a machine.
#pragma once

#include <string>
#include <vector>

#include "train/ablate/sweep.hpp"

namespace heed::train {

struct Shares {
  int64_t jobs = 1;                  // runs side by side
  int64_t threads = 1;               // of each
  std::vector<std::string> devices;  // CUDA_VISIBLE_DEVICES of each job; empty on the CPU
  std::string notice;
};

// jobs: the number wanted; 0: one for each processor, or for each device if an arm runs on CUDA, as far as memory
// allows.
Shares share_machine(const Sweep& sweep, int64_t jobs);

}  // namespace heed::train
