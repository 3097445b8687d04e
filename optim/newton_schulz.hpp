// Newton-Schulz iteration: replaces the singular values of a matrix by values near 1, with matrix products alone.
//   X = M / max(|M|_F, 1e-7)
//   five times: X = a X + b (X X^T) X + c (X X^T)^2 X,  (a, b, c) = (3.4445, -4.7750, 2.0315)
// With M = U S V^T the result approximates U V^T: these coefficients, chosen for speed, leave the singular values
// between 0.68 and 1.21, except those that are below 0.15 % of |M|_F. A matrix with more rows than columns is
// multiplied from the other side, X (X^T X), so that the products in between are of its smaller dimension; the result
// is the same.
// Jordan 2024, "Muon: an optimizer for hidden layers in neural networks" (kellerjordan.github.io/posts/muon).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed::optim {

struct NewtonSchulz {
  static constexpr int kSteps = 5;
  static constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  static constexpr double kLeastNorm = 1e-7;
};

// matrices: (batch, rows, columns) f32 or f64, used as workspace. Returns the results in the same shape, in memory of
// their own or in that of `matrices`. FLOPs of a matrix with r = min and s = max of rows and columns: 5 (4 r^2 s + 2
// r^3). Throws ShapeError, DTypeError.
Tensor newton_schulz(const Tensor& matrices);

// c = op(a) op(b) for each matrix of the batch; (batch, rows, columns) each, op is the transpose where it is set.
struct MatrixProducts {
  TensorRef c = {};
  ConstTensorRef a = {}, b = {};
  bool transpose_a = false, transpose_b = false;
};
// Divides each matrix by max(sqrt(sum_of_squares), 1e-7).
struct NormalizeMatrices {
  TensorRef x = {};                     // (batch, rows, columns)
  ConstTensorRef sums_of_squares = {};  // f64 (batch)
};
// square = a I + b gram + c square, with I the identity matrix; (batch, n, n) each.
struct NewtonSchulzPolynomial {
  TensorRef square = {};
  ConstTensorRef gram = {};
};

}  // namespace heed::optim

namespace heed::cpu {
void matrix_products(Context& context, const optim::MatrixProducts& p);
void normalize_matrices(Context& context, const optim::NormalizeMatrices& p);
void newton_schulz_polynomial(Context& context, const optim::NewtonSchulzPolynomial& p);
}  // namespace heed::cpu
namespace heed::cuda {
void matrix_products(Context& context, const optim::MatrixProducts& p);
void normalize_matrices(Context& context, const optim::NormalizeMatrices& p);
void newton_schulz_polynomial(Context& context, const optim::NewtonSchulzPolynomial& p);
}  // namespace heed::cuda
