// The one place where an operation chooses its backend. A missing kernel does not link.
#pragma once

#include "autograd/core/context.hpp"

// HEED_DISPATCH(x.device(), layer_norm_forward, {.y = …, .x = …});
#define HEED_DISPATCH(device, kernel, ...) cpu::kernel(heed::context(device), __VA_ARGS__)
