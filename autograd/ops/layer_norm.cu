// The threads, the memory traffic and why the bits are always the same: autograd/cuda/norm_rows.cuh.
#include "autograd/ops/layer_norm.hpp"

#include "autograd/cuda/norm_rows.cuh"

namespace heed::cuda {

void layer_norm_forward(Context&, const LayerNormForward& p) {
  if (p.x.shape.rows() == 0) return;
  visit_elements("layer_norm", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    normalize_rows<true, T, DenseRows>({.y = elements<T>(p.y),
                                        .mean = elements<float>(p.mean),
                                        .rstd = elements<float>(p.rstd),
                                        .x = elements<T>(p.x),
                                        .weight = elements<float>(p.weight),
                                        .bias = elements<float>(p.bias),
                                        .layout = {p.x.shape.columns()},
                                        .rows = p.x.shape.rows(),
                                        .columns = p.x.shape.columns(),
                                        .eps = static_cast<float>(p.eps)});
  });
}

void layer_norm_backward(Context& context, const LayerNormBackward& p) {
  if (!p.dx && !p.dweight && !p.dbias) return;
  const int64_t columns = p.x.shape.columns();
  const RowChunks chunks(p.x.shape.rows(), 16);
  const PartialRows dweight(context, p.dweight, chunks, columns), dbias(context, p.dbias, chunks, columns);
  visit_elements("layer_norm", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    differentiate_rows<true, T, DenseRows>({.dx = elements<T>(p.dx.ref),
                                            .add = p.dx.add,
                                            .dweight = dweight.data(),
                                            .dbias = dbias.data(),
                                            .dy = elements<T>(p.dy),
                                            .x = elements<T>(p.x),
                                            .weight = elements<float>(p.weight),
                                            .mean = elements<float>(p.mean),
                                            .rstd = elements<float>(p.rstd),
                                            .layout = {columns},
                                            .chunks = chunks,
                                            .columns = columns});
  });
  PartialRows::finish(dweight, dbias);
}

}  // namespace heed::cuda
