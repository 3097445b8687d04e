// Selects the attention kernels, and computes delta = rowsum(dy * y), the first kernel of every backward.
//
// Threads: delta uses 8 adjacent threads for each row of a head, thread blocks of 256.
// Memory: dy and y are read once, 4 bytes are written per row; a warp has 1 KiB or more in flight. Memory-bound.
// Order: fixed: each lane sums ascending columns, then the lanes are summed.
#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/attention/cuda/path.hpp"
#include "autograd/ops/attention/cuda/problem.cuh"

namespace heed::cuda {
namespace {

constexpr int kDeltaThreads = 256, kDeltaLanes = 8;

template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_kernel(int64_t rows, int queries, int heads, int head_size,
                                                              bool vectors, float* delta, ConstHeads dy, ConstHeads y) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x) / kDeltaLanes;
  const int lane = static_cast<int>(threadIdx.x) % kDeltaLanes;
  // The heads of a query are adjacent in memory.
  const int64_t query = row / heads, head = row - query * heads, batch = query / queries;
  const int position = static_cast<int>(query - batch * queries);
  float sum = 0;
  if (row < rows) {
    const T* a = rows_of<T>(dy, static_cast<int>(batch), static_cast<int>(head)).at(position);
    const T* b = rows_of<T>(y, static_cast<int>(batch), static_cast<int>(head)).at(position);
    if (vectors) {
      for (int c = lane * 4; c < head_size; c += kDeltaLanes * 4) {
        const Floats<4> left = load<4>(a + c), right = load<4>(b + c);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum += left.value[e] * right.value[e];
      }
    } else {
      for (int c = lane; c < head_size; c += kDeltaLanes) sum += to_float(a[c]) * to_float(b[c]);
    }
  }
  sum = warp_reduce<kDeltaLanes>(sum, Sum{});
  if (lane == 0 && row < rows) delta[(batch * heads + head) * queries + position] = sum;
}

void make_delta(const AttentionBackward& p, float* delta) {
  const AttentionProblem& problem = p.problem;
  const int64_t rows = problem.batch * problem.queries * problem.heads;
  if (rows == 0) return;
  visit_elements("attention", problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(delta_kernel<T>, {blocks_for(rows, kDeltaThreads / kDeltaLanes), kDeltaThreads}, rows,
           static_cast<int>(problem.queries), static_cast<int>(problem.heads), static_cast<int>(problem.head_size),
           can_move_heads<4, T>(problem.head_size, p.dy, p.y), delta, p.dy, p.y);
  });
}

template <class... Heads>
AttentionPath path_of(const AttentionProblem& p, const Heads&... heads) {
  const bool on_tensor_cores = p.dtype == DType::bf16 && p.head_size <= kMostColumnsOnTensorCores &&
                               can_move_heads<kPerVector<__nv_bfloat16>, __nv_bfloat16>(p.head_size, heads...);
  return on_tensor_cores ? AttentionPath::tensor_cores : AttentionPath::generic;
}

}  // namespace

AttentionPath attention_path(const AttentionForward& p) { return path_of(p.problem, p.y, p.q, p.k, p.v); }
AttentionPath attention_path(const AttentionBackward& p) {
  return path_of(p.problem, p.dq, p.dk, p.dv, p.dy, p.q, p.k, p.v);
}

void attention_forward(Context&, const AttentionForward& p) {
  if (p.problem.batch == 0 || p.problem.queries == 0) return;
  attention_path(p) == AttentionPath::generic ? generic_attention_forward(p) : tensor_core_attention_forward(p);
}

void attention_backward(Context& context, const AttentionBackward& p) {
  if (p.problem.batch == 0 || (p.problem.queries == 0 && p.problem.keys == 0)) return;
  if (!p.dq && !p.dk && !p.dv) return;
  const Scratch<float> delta(context, p.problem.batch * p.problem.queries * p.problem.heads);
  make_delta(p, delta.data());
  attention_path(p) == AttentionPath::generic ? generic_attention_backward(p, delta.data())
                                              : tensor_core_attention_backward(p, delta.data());
}

}  // namespace heed::cuda
