// Device-side asserts for tokens, see fault.hpp.
#pragma once

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/fault.hpp"

namespace heed::cuda {

// Whether a token is in range. If not, stores it in the fault: of the wrong tokens of one launch, the one at the first
// position, whatever the order of threads. Positions are below 2^32: the data of more tokens would not fit into any
// memory.
__device__ inline bool allows(const TokenCheck& check, int32_t token, int64_t position) {
  if (token >= 0 && token < check.range.vocabulary) return true;
  const uint32_t holder = atomicCAS(&check.fault->launch, 0u, check.launch);
  if (holder == 0) check.fault->range = check.range;
  if (holder == 0 || holder == check.launch) {
    atomicMax(&check.fault->first, ~(static_cast<unsigned long long>(position) << 32 | static_cast<uint32_t>(token)));
  }
  return false;
}

}  // namespace heed::cuda
