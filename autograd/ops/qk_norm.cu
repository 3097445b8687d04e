// Queries and keys: RMSNorm of rows of D elements with the kernels of autograd/cuda/norm_rows.cuh, one launch for the
// query heads and one for the key heads. Values: a thread copies a vector of up to 16 bytes; dy is read and dqkv
// written once. The bits depend on the shape only.
#include "autograd/ops/qk_norm.hpp"

#include "autograd/cuda/norm_rows.cuh"

namespace heed::cuda {
namespace {

// `heads` adjacent heads of each packed row, which has `stride` elements; a norm row is one head.
struct HeadRows {
  int64_t heads, stride, columns;
  __host__ __device__ int64_t offset(int64_t row) const { return row / heads * stride + row % heads * columns; }
};

constexpr int kCopyThreads = 256;

// The values of a packed row are its last `width` elements. from and to point to the first of them.
template <int N, class T>
__global__ void __launch_bounds__(kCopyThreads)
    copy_values_kernel(T* to, bool add, const T* from, int64_t rows, int64_t width, int64_t stride) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kCopyThreads + threadIdx.x) * N;
  if (at >= rows * width) return;
  const int64_t i = at / width * stride + at % width;
  Floats<N> values = load<N>(from + i);
  if (add) {
    const Floats<N> sum = load<N>(to + i);
#pragma unroll
    for (int j = 0; j < N; ++j) values.value[j] += sum.value[j];
  }
  store<N>(to + i, values);
}

template <class T>
void copy_values(T* to, bool add, const T* from, const Shape& qkv, const QkNormOptions& options) {
  const int64_t rows = qkv.rows(), stride = qkv.columns();
  const int64_t size = stride / (options.num_heads + 2 * options.num_kv_heads), width = options.num_kv_heads * size;
  constexpr int kVector = kPerVector<T>;
  to += stride - width;
  from += stride - width;
  const bool wide = can_move<kVector>(size, to, from);
  launch(wide ? copy_values_kernel<kVector, T> : copy_values_kernel<1, T>,
         {blocks_for(rows * width, kCopyThreads * (wide ? kVector : 1)), kCopyThreads}, to, add, from, rows, width,
         stride);
}

// Where the query or key heads of packed rows are.
struct Part {
  Part(const Shape& qkv, const QkNormOptions& o, bool is_query)
      : heads(is_query ? o.num_heads : o.num_kv_heads),
        size(qkv.columns() / (o.num_heads + 2 * o.num_kv_heads)),
        first(is_query ? 0 : o.num_heads * size),
        rows(qkv.rows() * heads),
        layout{heads, qkv.columns(), size} {}

  int64_t heads, size, first, rows;
  HeadRows layout;
};

}  // namespace

void qk_norm_forward(Context&, const QkNormForward& p) {
  if (p.qkv.shape.rows() == 0) return;
  visit_elements("qk_norm", p.qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (const bool is_query : {true, false}) {
      const Part part(p.qkv.shape, p.options, is_query);
      normalize_rows<false, T, HeadRows>({.y = elements<T>(p.y) + part.first,
                                          .mean = nullptr,
                                          .rstd = elements<float>(is_query ? p.q_rstd : p.k_rstd),
                                          .x = elements<T>(p.qkv) + part.first,
                                          .weight = elements<float>(is_query ? p.q_weight : p.k_weight),
                                          .bias = nullptr,
                                          .layout = part.layout,
                                          .rows = part.rows,
                                          .columns = part.size,
                                          .eps = static_cast<float>(p.options.eps)});
    }
    copy_values(elements<T>(p.y), false, elements<T>(p.qkv), p.qkv.shape, p.options);
  });
}

void qk_norm_backward(Context& context, const QkNormBackward& p) {
  if (!p.dqkv && !p.dq_weight && !p.dk_weight) return;
  visit_elements("qk_norm", p.qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* dqkv = elements<T>(p.dqkv.ref);
    for (const bool is_query : {true, false}) {
      const Part part(p.qkv.shape, p.options, is_query);
      const RowChunks chunks(part.rows, 16);
      const PartialRows dweight(context, is_query ? p.dq_weight : p.dk_weight, chunks, part.size);
      differentiate_rows<false, T, HeadRows>({.dx = dqkv == nullptr ? nullptr : dqkv + part.first,
                                              .add = p.dqkv.add,
                                              .dweight = dweight.data(),
                                              .dbias = nullptr,
                                              .dy = elements<T>(p.dy) + part.first,
                                              .x = elements<T>(p.qkv) + part.first,
                                              .weight = elements<float>(is_query ? p.q_weight : p.k_weight),
                                              .mean = nullptr,
                                              .rstd = elements<float>(is_query ? p.q_rstd : p.k_rstd),
                                              .layout = part.layout,
                                              .chunks = chunks,
                                              .columns = part.size});
      dweight.finish();
    }
    if (dqkv != nullptr && p.qkv.shape.rows() > 0) {
      copy_values(dqkv, p.dqkv.add, elements<T>(p.dy), p.qkv.shape, p.options);
    }
  });
}

}  // namespace heed::cuda
