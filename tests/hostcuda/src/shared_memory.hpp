// Shared memory of the running block: filled with NaN before it, looked at behind it.
#pragma once

#include <string>

#include "src/engine.hpp"

namespace hostcuda {

constexpr unsigned char kCanary = 0xFB, kPoison = 0xFF;

void poison_shared(Multiprocessor& processor);
// Reports where the bytes around dynamic shared memory have changed.
void check_shared(Multiprocessor& processor);
// "byte 4 of shared partial (32 bytes)", empty where the address is not in shared memory.
std::string describe_shared(const Multiprocessor& processor, const void* address);

}  // namespace hostcuda
