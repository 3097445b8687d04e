// The device whose memory holds a tensor and whose kernels work on it.
#pragma once

#include <string_view>

namespace heed {

enum class Device { cpu, cuda };

constexpr std::string_view name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

class Context;
Context& context(Device device);  // autograd/core/context.hpp

}  // namespace heed

// Backend dispatch: the only place where an operation selects CPU or CUDA. A missing kernel is a link error.
//   HEED_DISPATCH(x.device(), layer_norm_forward, {.y = …, .x = …});
#ifdef HEED_HAVE_CUDA
#define HEED_DISPATCH(device, kernel, ...)                                                       \
  ((device) == heed::Device::cuda ? cuda::kernel(heed::context(heed::Device::cuda), __VA_ARGS__) \
                                  : cpu::kernel(heed::context(heed::Device::cpu), __VA_ARGS__))
#else
#define HEED_DISPATCH(device, kernel, ...) cpu::kernel(heed::context(device), __VA_ARGS__)
#endif
