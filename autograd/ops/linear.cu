// linear: three GEMMs (cuda/gemm.hpp), and the column sums of dy (cuda/column_sum.cuh), which read dy again.
//
// linear_gelu: one GEMM with a GELU epilogue if cuda/gemm.hpp has one (gemm_gelu()), else a GEMM followed by a GELU
// pass over u.
//
// Memory: x and weight are read, u and y written; the separate pass reads u once more. At 16384 x 768 -> 3072 in bf16
// the fused GEMM moves 231 MB and is bound by its 77 GFLOP (98 us at 790 TFLOP/s): on paper it saves the pass, 47 us at
// the speed of a copy. Runs are bitwise reproducible: the choice depends on sizes, dtype, addresses and GPU only.
// Backward: the GELU backward pass, in place over u, then the backward of linear. dbias stays the column sums of du:
// cuBLASLt could compute it in the dweight GEMM (BGRADB), but documents neither the order nor the precision of the
// sums, and cannot accumulate into an existing gradient.
#include "autograd/ops/linear.hpp"

#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/gemm.hpp"
#include "autograd/ops/elementwise.hpp"

namespace heed::cuda {

void linear_forward(Context& context, const LinearForward& p) {
  gemm(context, {.m = p.x.shape.rows(),
                 .n = p.weight.shape[0],
                 .k = p.weight.shape[1],
                 .a = p.x,
                 .b = p.weight,
                 .c = p.y,
                 .ldc = p.y.shape.columns(),
                 .transpose_b = true,
                 .bias = p.bias,
                 .bias_copy = p.bias_copy});
}

void linear_backward(Context& context, const LinearBackward& p) {
  const int64_t rows = p.x.shape.rows(), outputs = p.weight.shape[0], inputs = p.weight.shape[1];
  if (p.dx) {
    gemm(context, {.m = rows,
                   .n = inputs,
                   .k = outputs,
                   .a = p.dy,
                   .b = p.weight,
                   .c = p.dx.ref,
                   .lda = p.dy.shape.columns(),
                   .add = p.dx.add});
  }
  if (p.dweight) {
    gemm(context, {.m = outputs,
                   .n = inputs,
                   .k = rows,
                   .a = p.dy,
                   .b = p.x,
                   .c = p.dweight.ref,
                   .lda = p.dy.shape.columns(),
                   .transpose_a = true,
                   .add = p.dweight.add});
  }
  visit_elements("linear", p.dy.dtype,
                 [&](auto zero) { column_sum(context, p.dbias, elements<decltype(zero)>(p.dy), rows, outputs); });
}

void linear_gelu_forward(Context& context, const LinearGeluForward& p) {
  const Gemm product{.m = p.x.shape.rows(),
                     .n = p.weight.shape[0],
                     .k = p.weight.shape[1],
                     .a = p.x,
                     .b = p.weight,
                     .c = p.kept,
                     .transpose_b = true,
                     .bias = p.bias,
                     .bias_copy = p.bias_copy};
  if (gemm_gelu(context, product, p.y)) return;
  gemm(context, product);
  gelu_forward(context, {.y = p.y, .x = p.kept});
}

void linear_gelu_du(Context& context, const LinearGeluDu& p) {
  gelu_backward(context, {.dx = {p.kept}, .dy = p.dy, .x = p.kept});
}

}  // namespace heed::cuda
