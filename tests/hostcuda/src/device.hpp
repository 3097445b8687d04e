// Whether there is a device, and what it can do.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace hostcuda {

cudaError_t require_device();  // cudaErrorNoDevice where HOSTCUDA_DEVICES=0

size_t max_dynamic_shared_bytes();  // of a block that asks for it; 48 KiB for the others
constexpr size_t kDefaultSharedBytes = 48 << 10;

std::vector<std::string> live_pinned_memory();

}  // namespace hostcuda
