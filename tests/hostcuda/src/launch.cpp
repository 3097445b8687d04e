// Launches, and what can be asked of a kernel.
#include <algorithm>
#include <map>

#include "src/device.hpp"
#include "src/device_memory.hpp"
#include "src/engine.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"
#include "src/symbols.hpp"

namespace hostcuda {
namespace {

constexpr unsigned kMaxBlockZ = 64, kMaxGridX = 0x7FFFFFFF, kMaxGridYZ = 65535;

std::map<const void*, size_t> dynamic_shared_limits;  // of the kernels that asked for another one

size_t dynamic_shared_limit(const void* kernel) {
  const auto found = dynamic_shared_limits.find(kernel);
  return found == dynamic_shared_limits.end() ? kDefaultSharedBytes : found->second;
}

bool is_valid_block(const dim3& block) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return threads >= 1 && threads <= kMaxThreads && block.x <= kMaxThreads && block.y <= kMaxThreads &&
         block.z <= kMaxBlockZ;
}

bool is_valid_grid(const dim3& grid) {
  return grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= kMaxGridX && grid.y <= kMaxGridYZ &&
         grid.z <= kMaxGridYZ;
}

// Clusters and grids that wait for each other need blocks that run at the same time.
bool is_supported(const cudaLaunchConfig_t& config) {
  return std::all_of(config.attrs, config.attrs + config.numAttrs, [](const cudaLaunchAttribute& attribute) {
    return attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization;
  });
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const KernelCall& call) {
  const Guard guard(runtime_lock);
  if (fault_error() != cudaSuccess) return fail(fault_error());
  if (!is_stream(config.stream)) return fail(cudaErrorInvalidResourceHandle);
  if (!is_valid_block(config.blockDim) || !is_valid_grid(config.gridDim)) return fail(cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > dynamic_shared_limit(call.kernel)) return fail(cudaErrorInvalidValue);
  if (!is_supported(config)) return fail(cudaErrorNotSupported);
  const Launch prepared{call, config.gridDim, config.blockDim, config.dynamicSmemBytes};
  return enqueue_device(config.stream, "kernel " + function_name(call.kernel), [prepared] {
    if (fault_error() != cudaSuccess) return;
    Launch launch = prepared;
    run_launch(launch);
    check_canaries(launch);
  });
}

}  // namespace hostcuda

using namespace hostcuda;

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  *attributes = {};
  attributes->maxThreadsPerBlock = kMaxThreads;
  attributes->numRegs = 32;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(kernel));
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) return error;
  attributes->ptxVersion = attributes->binaryVersion = properties.major * 10 + properties.minor;
  return result();
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return result();  // the others are hints
  if (value < 0 || static_cast<size_t>(value) > max_dynamic_shared_bytes()) return fail(cudaErrorInvalidValue);
  dynamic_shared_limits[kernel] = static_cast<size_t>(value);
  return result();
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t dynamic_shared_bytes) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (threads < 1) return fail(cudaErrorInvalidValue);
  constexpr size_t kThreads = 2048, kBlocks = 32, kReserved = 1024;
  const size_t by_threads = kThreads / static_cast<size_t>(threads);
  const size_t by_shared = (max_dynamic_shared_bytes() + kReserved) / (dynamic_shared_bytes + kReserved);
  *blocks = static_cast<int>(std::min({by_threads, kBlocks, by_shared}));
  return result();
}
