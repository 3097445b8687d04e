// A kernel cannot throw. Where it meets a token outside its range it goes on as if there were none, and notes it here;
// the error is thrown the next time the host waits for the device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "autograd/core/token_range.hpp"

namespace heed::cuda {

// In the memory of the device, all zeros where there is none. The first launch that meets a fault keeps it.
struct Fault {
  uint32_t launch = 0;           // 0: no fault
  unsigned long long first = 0;  // position << 32 | value, inverted so that the first position is the largest number
  TokenRange range = {};
};
static_assert(std::is_trivially_copyable_v<Fault>);

// What a kernel checks tokens by, see fault.cuh.
struct TokenCheck {
  Fault* fault = nullptr;
  uint32_t launch = 0;
  TokenRange range = {};
};

// A check for one launch.
TokenCheck token_check(const TokenRange& range);

// Copies the fault to the host, in the order of the stream; for throw_if_fault(), after the host has waited for it.
void queue_fault();
// Throws ValueError as the CPU does, and forgets the fault.
void throw_if_fault();

}  // namespace heed::cuda
