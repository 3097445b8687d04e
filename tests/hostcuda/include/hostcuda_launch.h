// CUDA emulation: the templates of cuda_runtime.h that take kernels and typed pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace hostcuda {

// Calls the kernel once, for one thread, with the arguments of its launch.
using CallKernel = void (*)(const void* arguments);

struct KernelCall {
  const void* kernel;
  CallKernel call;
  std::shared_ptr<const void> arguments;
  size_t argument_bytes;
};
cudaError_t launch(const cudaLaunchConfig_t& config, const KernelCall& call);

// Dynamic shared memory of the running block.
void* dynamic_shared();

}  // namespace hostcuda

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "kernel arguments are copied as bytes");
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<std::remove_cv_t<Parameters>...> values;
  };
  static_assert(sizeof(Call) <= 4096, "a kernel takes 4 KiB of arguments");
  auto call = std::make_shared<Call>(Call{kernel, {static_cast<Parameters>(std::forward<Arguments>(arguments))...}});
  const auto run = [](const void* memory) {
    const auto& copy = *static_cast<const Call*>(memory);
    std::apply(copy.kernel, copy.values);
  };
  return hostcuda::launch(*config, {reinterpret_cast<const void*>(kernel), run, std::move(call), sizeof(Call)});
}

template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** memory, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(memory), bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** memory, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(memory), bytes, flags);
}
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(Parameters...), int threads,
                                                          size_t dynamic_shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(kernel), threads,
                                                       dynamic_shared_bytes);
}
