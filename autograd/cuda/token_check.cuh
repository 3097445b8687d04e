// Device-side asserts for tokens. A kernel cannot throw: at a token outside its range it continues without that token
// and stores a fault here. The error is thrown the next time the host waits for the device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "autograd/core/token_range.hpp"
#include "autograd/cuda/element.cuh"

namespace heed::cuda {

// In device memory; all zeros if there is no fault. The first launch with a fault keeps the entry.
struct Fault {
  uint32_t launch = 0;           // 0: no fault
  unsigned long long first = 0;  // position << 32 | value, inverted: the first position is the largest number
  TokenRange range = {};
};
static_assert(std::is_trivially_copyable_v<Fault>);

// The kernel argument for token checks.
struct TokenCheck {
  Fault* fault = nullptr;
  uint32_t launch = 0;
  TokenRange range = {};
};

// The check for one kernel launch.
TokenCheck token_check(const TokenRange& range);

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
