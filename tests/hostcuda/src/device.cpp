#include "src/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

// 227 KiB on sm_90, 163 KiB on sm_80.
constexpr size_t kMaxShared90 = 227 << 10, kMaxShared80 = 163 << 10;

int capability() {
  static const uint64_t number = environment_number("HOSTCUDA_CAPABILITY", 90);
  if (number != 80 && number != 90) give_up("HOSTCUDA_CAPABILITY is 80 or 90");
  return static_cast<int>(number);
}

cudaError_t require_number(int device) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  return device == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

}  // namespace

cudaError_t require_device() {
  static const uint64_t devices = environment_number("HOSTCUDA_DEVICES", 1);
  if (devices > 1) give_up("HOSTCUDA_DEVICES is 0 or 1");
  return devices == 0 ? fail(cudaErrorNoDevice) : cudaSuccess;
}

size_t max_dynamic_shared_bytes() { return capability() == 90 ? kMaxShared90 : kMaxShared80; }

}  // namespace hostcuda

using namespace hostcuda;

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = require_device();
  *count = error == cudaSuccess ? 1 : 0;
  return error;
}
cudaError_t cudaSetDevice(int device) { return require_number(device); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return require_device();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = require_number(device); error != cudaSuccess) return error;
  *properties = {};
  std::strcpy(properties->name, "host execution of CUDA");
  // Each process has a device of its own, unless it is told that it shares one.
  const uint64_t id = environment_number("HOSTCUDA_DEVICE_ID", static_cast<uint64_t>(getpid()));
  std::memcpy(properties->uuid.bytes, &id, sizeof(id));
  properties->totalGlobalMem = device_bytes_total();
  properties->sharedMemPerBlock = kDefaultSharedBytes;
  properties->sharedMemPerBlockOptin = max_dynamic_shared_bytes();
  properties->sharedMemPerMultiprocessor = max_dynamic_shared_bytes() + 1024;
  properties->totalConstMem = 64 << 10;
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->multiProcessorCount = 4;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->regsPerBlock = 65536;
  const int threads[] = {1024, 1024, 64}, blocks[] = {0x7FFFFFFF, 65535, 65535};
  std::copy_n(threads, 3, properties->maxThreadsDim);
  std::copy_n(blocks, 3, properties->maxGridSize);
  properties->l2CacheSize = 1 << 20;
  properties->memoryBusWidth = 64;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
    default:
      return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return require_device();
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  *total = device_bytes_total();
  *free = device_bytes_total() - device_bytes_used();
  return cudaSuccess;
}
