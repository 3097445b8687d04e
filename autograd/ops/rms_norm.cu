// The threads, the memory traffic and why the bits are always the same: autograd/cuda/norm_rows.cuh.
#include "autograd/ops/rms_norm.hpp"

#include "autograd/cuda/norm_rows.cuh"

namespace heed::cuda {

void rms_norm_forward(Context&, const RmsNormForward& p) {
  if (p.x.shape.rows() == 0) return;
  visit_elements("rms_norm", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    normalize_rows<false, T, DenseRows>({.y = elements<T>(p.y),
                                         .mean = nullptr,
                                         .rstd = elements<float>(p.rstd),
                                         .x = elements<T>(p.x),
                                         .weight = elements<float>(p.weight),
                                         .bias = nullptr,
                                         .layout = {p.x.shape.columns()},
                                         .rows = p.x.shape.rows(),
                                         .columns = p.x.shape.columns(),
                                         .eps = static_cast<float>(p.eps)});
  });
}

void rms_norm_backward(Context& context, const RmsNormBackward& p) {
  if (!p.dx && !p.dweight) return;
  const int64_t columns = p.x.shape.columns();
  const RowChunks chunks(p.x.shape.rows(), 16);
  const PartialRows dweight(context, p.dweight, chunks, columns);
  visit_elements("rms_norm", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    differentiate_rows<false, T, DenseRows>({.dx = elements<T>(p.dx.ref),
                                             .add = p.dx.add,
                                             .dweight = dweight.data(),
                                             .dbias = nullptr,
                                             .dy = elements<T>(p.dy),
                                             .x = elements<T>(p.x),
                                             .weight = elements<float>(p.weight),
                                             .mean = nullptr,
                                             .rstd = elements<float>(p.rstd),
                                             .layout = {columns},
                                             .chunks = chunks,
                                             .columns = columns});
  });
  dweight.finish();
}

}  // namespace heed::cuda
