// Each of y, da and db is one call of gemm(), with a batch if b has leading dimensions.
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/ops/matmul.hpp"

namespace heed::cpu {
namespace {

// db = a^T dy, in the dtype of b or in its accumulation dtype.
template <class T, class Out>
void gradient_of_b(Context& context, const MatmulBackward& p, const MatmulSizes& sizes) {
  gemm(context, Gemm<T, Out>{.m = sizes.k,
                             .n = sizes.n,
                             .k = sizes.m,
                             .batches = sizes.batches,
                             .a = p.a.as<T>(),
                             .b = p.dy.as<T>(),
                             .c = p.db.ref.as<Out>(),
                             .transpose_a = true,
                             .add = p.db.add});
}

}  // namespace

void matmul_forward(Context& context, const MatmulForward& p) {
  const MatmulSizes sizes(p.a.shape, p.b.shape);
  visit_floating(p.a.dtype, [&](auto zero) {
    using T = decltype(zero);
    gemm(context, Gemm<T>{.m = sizes.m,
                          .n = sizes.n,
                          .k = sizes.k,
                          .batches = sizes.batches,
                          .a = p.a.as<T>(),
                          .b = p.b.as<T>(),
                          .c = p.y.as<T>()});
  });
}

void matmul_backward(Context& context, const MatmulBackward& p) {
  const MatmulSizes sizes(p.a.shape, p.b.shape);
  visit_floating(p.a.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (p.da) {
      gemm(context, Gemm<T>{.m = sizes.m,
                            .n = sizes.k,
                            .k = sizes.n,
                            .batches = sizes.batches,
                            .a = p.dy.as<T>(),
                            .b = p.b.as<T>(),
                            .c = p.da.ref.as<T>(),
                            .transpose_b = true,
                            .add = p.da.add});
    }
    if (!p.db) return;
    p.db.ref.dtype == dtype_of<T>() ? gradient_of_b<T, T>(context, p, sizes)
                                    : gradient_of_b<T, AccumT<T>>(context, p, sizes);
  });
}

}  // namespace heed::cpu
