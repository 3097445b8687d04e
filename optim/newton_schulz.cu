// The products are batched cuBLASLt GEMMs in f32 (TF32 with train.tf32). The other two are one pass over their
// elements, 4 bytes read and 4 written per element of X, 8 and 4 of the polynomial; memory-bound, and of the square of
// the smaller dimension. Threads: one per element. Each element is computed independently: the bits do not depend on
// the order.
#include "optim/newton_schulz.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/gemm.hpp"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

using optim::NewtonSchulz;

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    normalize_matrices_kernel(float* x, const double* sums_of_squares, int64_t size, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  constexpr double kLeast = NewtonSchulz::kLeastNorm;
  const double norm = sqrt(sums_of_squares[i / size]);
  x[i] *= static_cast<float>(1 / (norm < kLeast ? kLeast : norm));  // a NaN stays one
}

__global__ void __launch_bounds__(kThreads)
    newton_schulz_polynomial_kernel(float* square, const float* gram, int64_t n, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / n % n, column = i % n;
  constexpr auto kA = static_cast<float>(NewtonSchulz::kA), kB = static_cast<float>(NewtonSchulz::kB),
                 kC = static_cast<float>(NewtonSchulz::kC);
  square[i] = fmaf(kB, gram[i], kC * square[i]) + (row == column ? kA : 0.0f);
}

}  // namespace

void matrix_products(Context& context, const optim::MatrixProducts& p) {
  gemm(context, {.m = p.c.shape[1],
                 .n = p.c.shape[2],
                 .k = p.a.shape[p.transpose_a ? 1 : 2],
                 .batches = p.c.shape[0],
                 .a = p.a,
                 .b = p.b,
                 .c = p.c,
                 .transpose_a = p.transpose_a,
                 .transpose_b = p.transpose_b});
}

void normalize_matrices(Context&, const optim::NormalizeMatrices& p) {
  const int64_t count = p.x.shape.numel();
  launch(normalize_matrices_kernel, {blocks_for(count, kThreads), kThreads}, elements<float>(p.x),
         elements<double>(p.sums_of_squares), count / p.x.shape[0], count);
}

void newton_schulz_polynomial(Context&, const optim::NewtonSchulzPolynomial& p) {
  const int64_t count = p.square.shape.numel();
  launch(newton_schulz_polynomial_kernel, {blocks_for(count, kThreads), kThreads}, elements<float>(p.square),
         elements<float>(p.gram), p.square.shape[2], count);
}

}  // namespace heed::cuda
