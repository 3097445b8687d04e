// Checks of tokens in kernels.
#pragma once

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/fault.hpp"

namespace heed::cuda {

// Whether a token may be followed. If not, notes it: of the tokens of one launch that with the first position, whatever
// order the threads come in. Positions are below 2^32: no memory holds what more tokens stand for.
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
