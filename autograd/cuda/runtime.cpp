#include "autograd/cuda/runtime.hpp"

#include <cstdlib>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/error.hpp"
#include "autograd/cuda/fault.hpp"
#include "autograd/cuda/probe.hpp"

namespace heed::cuda {
namespace {

std::string architecture_of(const cudaDeviceProp& properties) {
  return fmt::format("sm_{}{}", properties.major, properties.minor);
}

Status find_devices() {
  Status found{.architectures = HEED_CUDA_ARCHITECTURES, .devices = {}, .problem = {}};
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    found.problem =
        fmt::format("no CUDA device found ({})", error == cudaSuccess ? "there are none" : cudaGetErrorString(error));
    return found;
  }
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    found.devices.push_back({.name = properties.name,
                             .architecture = architecture_of(properties),
                             .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)});
  }
  // The first one is used.
  const cudaError_t code = found.devices.empty() ? cudaErrorNoDevice : find_code_for_device();
  if (code != cudaSuccess) {
    cudaGetLastError();
    found.problem =
        found.devices.empty()
            ? "no CUDA device answers"
            : fmt::format(
                  "this heed has code for {} and cannot run on {} ({}, {}): build it with "
                  "CMAKE_CUDA_ARCHITECTURES for that card",
                  found.architectures, found.devices[0].name, found.devices[0].architecture, cudaGetErrorString(code));
  }
  return found;
}

struct Runtime {
  cudaStream_t stream = nullptr;
  cublasLtHandle_t blas = nullptr;
  int multiprocessors = 0, capability_major = 0;

  Runtime() {
    require<DeviceError>(status().problem.empty(), "{}; set train.device = \"cpu\"", status().problem);
    check(cudaSetDevice(0), "choose a device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
    check(cublasLtCreate(&blas), "start");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "ask for multiprocessors");
    check(cudaDeviceGetAttribute(&capability_major, cudaDevAttrComputeCapabilityMajor, 0), "ask for its kind");
  }
};

// Never destroyed: at exit the driver may be gone before it.
Runtime& runtime() {
  static Runtime* const instance = new Runtime;
  return *instance;
}

class DeviceMemory final : public MemorySource {
 public:
  void* allocate(int64_t bytes) override {
    runtime();
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(error, "allocate memory");
    return memory;
  }
  // What still reads the block was queued before, and cudaFree waits for it.
  void free(void* memory) noexcept override { cudaFree(memory); }
  int64_t alignment() const override { return 256; }
  std::string free_text() const override {
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    return fmt::format(", {} of the device's {} free", free, total);
  }
};

void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream()), "copy");
}

}  // namespace

const Status& status() {
  static const Status found = find_devices();
  return found;
}

cudaStream_t stream() { return runtime().stream; }
cublasLtHandle_t blas() { return runtime().blas; }
int multiprocessors() { return runtime().multiprocessors; }
int capability_major() { return runtime().capability_major; }

MemorySource& memory_source() {
  static DeviceMemory* const source = new DeviceMemory;
  return *source;
}

void copy_to_device(void* to, const void* from, int64_t bytes) {
  copy(to, from, bytes, cudaMemcpyHostToDevice);
  // From memory that is not pinned it has been read by now; the wait is for memory that is.
  synchronize();
}
void copy_to_host(void* to, const void* from, int64_t bytes) {
  copy(to, from, bytes, cudaMemcpyDeviceToHost);
  synchronize();
}
void copy_on_device(void* to, const void* from, int64_t bytes) { copy(to, from, bytes, cudaMemcpyDeviceToDevice); }
void fill(void* memory, int byte, int64_t bytes) {
  check(cudaMemsetAsync(memory, byte, static_cast<size_t>(bytes), stream()), "fill memory");
}
void synchronize() {
  queue_fault();
  check(cudaStreamSynchronize(stream()), "wait for the device");
  throw_if_fault();
}

}  // namespace heed::cuda
