// One product that also takes gelu where cuda/gemm.hpp has one, else a product and then a pass over u.
//
// Memory: in one, x and weight are read, u and y written; in two, u is read once more by the pass. At 16384 x 768 ->
// 3072 in bf16 231 MB for the one, bound by its 77 GFLOP (98 us at 790 TFLOP/s): on paper it saves the pass, 47 us at
// the speed of a copy. Any run gives the same bits: which way is gone depends on sizes, dtype, addresses and card
// alone. Backward: the pass of gelu's backward, over u, then linear's. The bias's gradient stays the column sums of du:
// cuBLASLt could make it inside the product for dweight (BGRADB), but says neither in which order it sums nor in what
// precision, and cannot add to what is there.
#include "autograd/ops/linear_gelu.hpp"

#include "autograd/cuda/gemm.hpp"
#include "autograd/ops/elementwise.hpp"

namespace heed::cuda {

void linear_gelu_forward(Context& context, const LinearGeluForward& p) {
  const Gemm product{.m = p.x.shape.rows(),
                     .n = p.weight.shape[0],
                     .k = p.weight.shape[1],
                     .a = p.x,
                     .b = p.weight,
                     .c = p.kept,
                     .transpose_b = true,
                     .bias = p.bias};
  if (gemm_gelu(context, product, p.y)) return;
  gemm(context, product);
  gelu_forward(context, {.y = p.y, .x = p.kept});
}

void linear_gelu_du(Context& context, const LinearGeluDu& p) {
  gelu_backward(context, {.dx = {p.kept}, .dy = p.dy, .x = p.kept});
}

}  // namespace heed::cuda
