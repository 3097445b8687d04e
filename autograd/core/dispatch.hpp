// The one place where an operation chooses its backend. A missing kernel does not link.
#pragma once

#include "autograd/core/context.hpp"

// HEED_DISPATCH(x.device(), layer_norm_forward, {.y = …, .x = …});
#ifdef HEED_HAVE_CUDA
#define HEED_DISPATCH(device, kernel, ...)                                                       \
  ((device) == heed::Device::cuda ? cuda::kernel(heed::context(heed::Device::cuda), __VA_ARGS__) \
                                  : cpu::kernel(heed::context(heed::Device::cpu), __VA_ARGS__))
#else
#define HEED_DISPATCH(device, kernel, ...) cpu::kernel(heed::context(device), __VA_ARGS__)
#endif
