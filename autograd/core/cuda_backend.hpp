// What core asks of the CUDA backend. Where heed is built without it, no_cuda.cpp stands in, and all but status()
// throws DeviceError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/core/memory_pool.hpp"

namespace heed::cuda {

struct DeviceInfo {
  std::string name;
  std::string architecture;  // "sm_90"
  int64_t memory_bytes = 0;
};
struct Status {
  std::string architectures;  // that there is code for: "sm_80, sm_90, PTX compute_90"; empty: built without CUDA
  std::vector<DeviceInfo> devices;
  std::string problem;  // why Device::cuda cannot be used; empty where it can
};
// Looks for devices when it is called for the first time. Throws nothing.
const Status& status();

MemorySource& memory_source();

// In the order of all other work on the device. On return the host may use its side again.
void copy_to_device(void* to, const void* from, int64_t bytes);
void copy_to_host(void* to, const void* from, int64_t bytes);
void copy_on_device(void* to, const void* from, int64_t bytes);
void fill(void* memory, int byte, int64_t bytes);
void synchronize();

}  // namespace heed::cuda
