// Each of y, da and db is one call of gemm() (cuda/gemm.hpp), a strided batch where b has leading dimensions.
#include "autograd/ops/matmul.hpp"

#include "autograd/cuda/gemm.hpp"

namespace heed::cuda {

void matmul_forward(Context& context, const MatmulForward& p) {
  const MatmulSizes sizes(p.a.shape, p.b.shape);
  gemm(context, {.m = sizes.m, .n = sizes.n, .k = sizes.k, .batches = sizes.batches, .a = p.a, .b = p.b, .c = p.y});
}

void matmul_backward(Context& context, const MatmulBackward& p) {
  const MatmulSizes sizes(p.a.shape, p.b.shape);
  if (p.da) {
    gemm(context, {.m = sizes.m,
                   .n = sizes.k,
                   .k = sizes.n,
                   .batches = sizes.batches,
                   .a = p.dy,
                   .b = p.b,
                   .c = p.da.ref,
                   .transpose_b = true,
                   .add = p.da.add});
  }
  if (p.db) {
    gemm(context, {.m = sizes.k,
                   .n = sizes.n,
                   .k = sizes.m,
                   .batches = sizes.batches,
                   .a = p.a,
                   .b = p.dy,
                   .c = p.db.ref,
                   .transpose_a = true,
                   .add = p.db.add});
  }
}

}  // namespace heed::cuda
