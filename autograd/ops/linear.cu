// Three GEMMs (cuda/gemm.hpp), and the column sums of dy (cuda/column_sum.cuh), which read dy again.
#include "autograd/ops/linear.hpp"

#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/gemm.hpp"

namespace heed::cuda {

void linear_forward(Context& context, const LinearForward& p) {
  gemm(context, {.m = p.x.shape.rows(),
                 .n = p.weight.shape[0],
                 .k = p.weight.shape[1],
                 .a = p.x,
                 .b = p.weight,
                 .c = p.y,
                 .transpose_b = true,
                 .bias = p.bias});
}

void linear_backward(Context& context, const LinearBackward& p) {
  const int64_t rows = p.x.shape.rows(), outputs = p.weight.shape[0], inputs = p.weight.shape[1];
  if (p.dx) {
    gemm(context, {.m = rows, .n = inputs, .k = outputs, .a = p.dy, .b = p.weight, .c = p.dx.ref, .add = p.dx.add});
  }
  if (p.dweight) {
    gemm(context, {.m = outputs,
                   .n = inputs,
                   .k = rows,
                   .a = p.dy,
                   .b = p.x,
                   .c = p.dweight.ref,
                   .transpose_a = true,
                   .add = p.dweight.add});
  }
  visit_elements("linear", p.dy.dtype,
                 [&](auto zero) { column_sum(context, p.dbias, elements<decltype(zero)>(p.dy), rows, outputs); });
}

}  // namespace heed::cuda
