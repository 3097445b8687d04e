// CUDA emulation: what a .cu file sees. This folder comes first among the include folders, and the file is
// compiled as C++20.
#pragma once

#include <cuda_runtime_api.h>

// <math.h> too: kernels call isnan and the like without std.
#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstring>

// Nothing tells host from device. A __shared__ array is one per OS thread and so one per running block: the engine
// finds these arrays in the symbol table, to fill them anew for each block and to name them.
#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// __noinline__ stays undefined: libstdc++ spells __attribute__((__noinline__)).

#include <hostcuda_device.h>
#include <hostcuda_launch.h>
#include <hostcuda_math.h>
