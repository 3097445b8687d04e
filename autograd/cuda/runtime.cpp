#include "autograd/cuda/runtime.hpp"

#include <string>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/core/host_limits.hpp"

namespace heed::cuda {
namespace {

std::string architecture_of(const cudaDeviceProp& properties) {
  return fmt::format("sm_{}{}", properties.major, properties.minor);
}

// The local rank of this process, and whether devices have been searched for.
int own_number = 0;
bool looked = false;

// A launcher that makes one device visible has selected it for this process.
int index_among(size_t devices) { return devices == 1 ? 0 : own_number; }

// Returns why there are no devices; empty if there are some.
std::string count_devices(int& count) {
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {};
  cudaGetLastError();
  return fmt::format("no CUDA device found ({})", error == cudaSuccess ? "there are none" : cudaGetErrorString(error));
}

Status find_devices() {
  looked = true;
  Status found{.architectures = HEED_CUDA_ARCHITECTURES, .devices = {}, .problem = {}};
  int count = 0;
  found.problem = count_devices(count);
  if (!found.problem.empty()) return found;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    found.devices.push_back({.name = properties.name,
                             .architecture = architecture_of(properties),
                             .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)});
  }
  if (index_among(found.devices.size()) >= static_cast<int>(found.devices.size()) && !found.devices.empty()) {
    found.problem =
        fmt::format("this is process {} of its node (from 0 on), which has {} devices: start at most {} there",
                    own_number, found.devices.size(), found.devices.size());
    return found;
  }
  cudaSetDevice(index_among(found.devices.size()));
  const auto index = static_cast<size_t>(index_among(found.devices.size()));
  const cudaError_t code = found.devices.empty() ? cudaErrorNoDevice : find_code_for_device();
  if (code != cudaSuccess) {
    cudaGetLastError();
    found.problem = found.devices.empty()
                        ? "no CUDA device answers"
                        : fmt::format(
                              "this heed has code for {} and cannot run on {} ({}, {}): build it with "
                              "CMAKE_CUDA_ARCHITECTURES for that card",
                              found.architectures, found.devices[index].name, found.devices[index].architecture,
                              cudaGetErrorString(code));
  }
  return found;
}

std::string advice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoKernelImageForDevice:
      return fmt::format("; this heed has code for {}: build it with CMAKE_CUDA_ARCHITECTURES for this card",
                         status().architectures);
    case cudaErrorInsufficientDriver:
      return "; the driver is older than this CUDA needs: install a newer one, or use the CPU";
    case cudaErrorMemoryAllocation:
      return "; use a smaller micro-batch, or recompute activations in backward";
    default:
      return {};
  }
}

struct Runtime {
  cudaStream_t stream = nullptr;
  cublasLtHandle_t blas = nullptr;
  int multiprocessors = 0, capability_major = 0;

  Runtime() {
    require<DeviceError>(status().problem.empty(), "{}; use the CPU", status().problem);
    check(cudaSetDevice(device_index()), "choose a device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
    check(cublasLtCreate(&blas), "start");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device_index()),
          "ask for multiprocessors");
    check(cudaDeviceGetAttribute(&capability_major, cudaDevAttrComputeCapabilityMajor, device_index()),
          "ask for its kind");
  }
};

// Never destroyed: at exit the driver may be unloaded first.
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
  // Kernels that still read the block were queued before, and cudaFree waits for them.
  void free(void* memory) noexcept override { cudaFree(memory); }
  int64_t alignment() const override { return 256; }
  std::string free_text() const override {
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    return fmt::format(", {} free of {} (the device)", human_bytes(static_cast<int64_t>(free)),
                       human_bytes(static_cast<int64_t>(total)));
  }
};

void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream()), "copy");
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) [[likely]] {
    return;
  }
  cudaGetLastError();  // clear the error, or the next call would report it
  throw DeviceError(
      fmt::format("CUDA: {}: {} ({}){}", what, cudaGetErrorString(error), cudaGetErrorName(error), advice(error)));
}

void check(cublasStatus_t status, const char* what) {
  require<DeviceError>(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: {}: {}", what, cublasLtGetStatusString(status));
}

const Status& status() {
  static const Status found = find_devices();
  return found;
}

std::string absence() {
  int count = 0;
  return count_devices(count);
}

void use_device(int local_rank) {
  require<GraphError>(!looked || local_rank == own_number, "a device is chosen before CUDA is used");
  own_number = local_rank;
}
int device_index() { return index_among(status().devices.size()); }
std::string device_id() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device_index()), "ask for the device");
  std::string id = "GPU-";
  for (size_t byte = 0; byte < sizeof(properties.uuid.bytes); ++byte) {
    const bool dash = byte == 4 || byte == 6 || byte == 8 || byte == 10;
    id += fmt::format("{}{:02x}", dash ? "-" : "", static_cast<unsigned char>(properties.uuid.bytes[byte]));
  }
  return id;
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
  // Pageable host memory has been read by now; the wait is for pinned memory.
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
