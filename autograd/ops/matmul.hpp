// y = a b, where the last two dimensions are matrices.
//   a (..., M, K) f32|bf16|f64, at least two dimensions    y (..., M, N) as a
//   b as a: a matrix (K, N) that all matrices of a are multiplied by, or (..., K, N) with the leading dimensions of a
//   da = dy b^T    db = a^T dy, for a matrix b summed over the leading dimensions of a
// Leading dimensions are not broadcast otherwise, and a vector must be reshaped to a matrix of one row or column. Sums
// are in f32 for bf16. The contribution to the gradient of a matrix b is f32 for bf16, as for linear's weight: it may
// be a parameter (Tensor::grad() says when the gradient is f32 too). If b is a matrix, y, da and db are one GEMM each,
// otherwise a batch of GEMMs. Saves a and b for backward. Throws ShapeError, DTypeError, DeviceError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor matmul(const Tensor& a, const Tensor& b);

// A matmul as GEMMs (m, k) x (k, n), `batches` of them, whose matrices are adjacent in memory.
struct MatmulSizes {
  int64_t batches = 1, m = 0, n = 0, k = 0;

  MatmulSizes(const Shape& a, const Shape& b) : m(a[-2]), n(b[-1]), k(a[-1]) {
    if (b.rank() == 2) {
      m = a.rows();
    } else {
      for (int i = 0; i + 2 < a.rank(); ++i) batches *= a[i];
    }
  }
};

struct MatmulForward {
  TensorRef y = {};
  ConstTensorRef a = {}, b = {};
};
struct MatmulBackward {
  GradientSink da = {}, db = {};  // db: f32 for a matrix b in bf16
  ConstTensorRef dy = {}, a = {}, b = {};
};

namespace cpu {
void matmul_forward(Context& context, const MatmulForward& p);
void matmul_backward(Context& context, const MatmulBackward& p);
}  // namespace cpu
namespace cuda {
void matmul_forward(Context& context, const MatmulForward& p);
void matmul_backward(Context& context, const MatmulBackward& p);
}  // namespace cuda

}  // namespace heed
