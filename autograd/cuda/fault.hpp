// Device-side asserts for tokens. A kernel cannot throw: at a token outside its range it continues without that token
// and stores a fault here. The error is thrown the next time the host waits for the device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "autograd/core/token_range.hpp"

namespace heed::cuda {

// In device memory; all zeros if there is no fault. The first launch with a fault keeps the entry.
struct Fault {
  uint32_t launch = 0;           // 0: no fault
  unsigned long long first = 0;  // position << 32 | value, inverted: the first position is the largest number
  TokenRange range = {};
};
static_assert(std::is_trivially_copyable_v<Fault>);

// The kernel argument for token checks, see fault.cuh.
struct TokenCheck {
  Fault* fault = nullptr;
  uint32_t launch = 0;
  TokenRange range = {};
};

// The check for one kernel launch.
TokenCheck token_check(const TokenRange& range);

// Queues a copy of the fault to the host. Stream-ordered: throw_if_fault() may read it after the host has waited.
void queue_fault();
// Throws ValueError as the CPU does, and clears the fault.
void throw_if_fault();

}  // namespace heed::cuda
