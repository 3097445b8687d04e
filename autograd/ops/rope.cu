// Threads: each processes N adjacent pairs of columns of a rotated head, or copies N adjacent columns that are not
// rotated; N elements fill 16 bytes, or N = 1 if size or alignment do not allow it. Thread blocks of 256.
// Memory: x is read and y written once; the table, which all heads share, stays in the L2 cache; memory-bound. y may be
// x, since each thread reads what it overwrites. The bits do not depend on the order of threads.
#include "autograd/ops/rope.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
struct RopeRows {
  T* y;
  bool add;
  const T* x;
  const float* table;
  int64_t rows, positions, first_position;  // positions: T of x
  int64_t columns, head_size, turned, rotated_heads;
  float sign;  // -1: rotate back
};

template <int N, class T>
__device__ __forceinline__ void put(const RopeRows<T>& p, int64_t at, Floats<N> value) {
  if (p.add) {
    const Floats<N> sum = load<N>(p.y + at);
#pragma unroll
    for (int i = 0; i < N; ++i) value.value[i] += sum.value[i];
  }
  store<N>(p.y + at, value);
}

// The column of the item-th column that is not rotated: first those inside the rotated heads, then the other heads.
template <class T>
__device__ __forceinline__ int64_t unrotated_column(const RopeRows<T>& p, int64_t item) {
  const int64_t rest = p.head_size - p.turned, inside = p.rotated_heads * rest;
  if (item >= inside) return p.rotated_heads * p.head_size + item - inside;
  return item / rest * p.head_size + p.turned + item % rest;
}

template <int N, class T>
__global__ void __launch_bounds__(kThreads) rope_kernel(RopeRows<T> p) {
  const int64_t half = p.turned / 2, pairs = p.rotated_heads * half / N;
  const int64_t per_row = pairs + (p.columns - p.rotated_heads * p.turned) / N;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = index / per_row, item = index - row * per_row, start = row * p.columns;
  if (row >= p.rows) return;
  if (item >= pairs) {
    const int64_t at = start + unrotated_column(p, (item - pairs) * N);
    put<N>(p, at, load<N>(p.x + at));
    return;
  }
  const int64_t head = item * N / half, i = item * N - head * half, at = start + head * p.head_size + i;
  const float* angles = p.table + (p.first_position + row % p.positions) * p.turned + i;
  const Floats<N> cosine = load<N>(angles), sine = load<N>(angles + half);
  const Floats<N> first = load<N>(p.x + at), second = load<N>(p.x + at + half);
  Floats<N> y1, y2;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float sin = p.sign * sine.value[k];
    y1.value[k] = first.value[k] * cosine.value[k] - second.value[k] * sin;
    y2.value[k] = second.value[k] * cosine.value[k] + first.value[k] * sin;
  }
  put<N>(p, at, y1);
  put<N>(p, at + half, y2);
}

}  // namespace

void apply_rope(Context&, const Rope& p) {
  if (!p.y || p.x.shape.numel() == 0) return;
  visit_elements("rope", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const RopeRows<T> rows{.y = elements<T>(p.y.ref),
                           .add = p.y.add,
                           .x = elements<T>(p.x),
                           .table = elements<float>(p.table),
                           .rows = p.x.shape.rows(),
                           .positions = p.x.shape[1],
                           .first_position = p.options.first_position,
                           .columns = p.x.shape.columns(),
                           .head_size = p.head_size(),
                           .turned = p.table.shape.columns(),
                           .rotated_heads = p.options.rotated_heads,
                           .sign = p.inverse ? -1.0f : 1.0f};
    const int64_t elements_moved = rows.rows * (rows.columns - rows.rotated_heads * rows.turned / 2);
    constexpr int kVector = kPerVector<T>;
    const bool whole = rows.head_size % kVector == 0 && can_move<kVector>(rows.turned / 2, rows.x, rows.y, rows.table);
    const auto run = [&](auto kernel, int64_t width) {
      launch(kernel, {blocks_for(elements_moved / width, kThreads), kThreads}, rows);
    };
    whole ? run(rope_kernel<kVector, T>, kVector) : run(rope_kernel<1, T>, 1);
  });
}

}  // namespace heed::cuda
