// The bias of a GEMM. put_bias() writes or adds it to each row of C, one thread per element, neighbouring threads in a
// row: for GEMMs with one row or column. round_to_bf16() rounds the bias of a bf16 GEMM if there is no bias_copy.
// Launch overhead dominates both.
#include <algorithm>

#include "autograd/cuda/elementwise.cuh"
#include "autograd/cuda/gemm.hpp"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void put_bias_kernel(T* c, const float* bias, int64_t rows, int64_t columns, bool add) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * columns;
       i += int64_t{gridDim.x} * blockDim.x) {
    const float before = add ? static_cast<float>(c[i]) : 0.0f;
    c[i] = static_cast<T>(before + bias[i % columns]);
  }
}

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

void put_bias(Context&, const Gemm& p) {
  constexpr int64_t kMostBlocks = 65535;
  const int64_t blocks = std::min(kMostBlocks, ceil_divide(p.m * p.n, kThreads));
  visit_elements("bias", p.c.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(put_bias_kernel<T>, {static_cast<unsigned>(blocks), kThreads}, elements<T>(p.c), elements<float>(p.bias),
           p.m, p.n, p.add);
  });
}

void round_to_bf16(Context&, void* y, const float* x, int64_t n) {
  elementwise(n, Identity{}, static_cast<__nv_bfloat16*>(y), x);
}

}  // namespace heed::cuda
