// Two kernels whose order shows. Only .cu files include this, so that no other compilation of them is linked.
#pragma once

#include <cuda_runtime.h>

namespace hostcuda::test {

static __global__ void add_kernel(int* values, int summand) { values[threadIdx.x] += summand; }
static __global__ void double_kernel(int* values) { values[threadIdx.x] *= 2; }

}  // namespace hostcuda::test
