// Threads: a thread group per row: a warp, or a thread block of 512 for rows of more than 2048 logits. Each
// thread reads 16 bytes at a time, whatever the alignment of the row. Before these,
// one thread block counts and checks the targets; after them, one adds the losses of the rows.
//
// Forward: reads the logits once, 2 or 4 bytes per element. Online softmax: one exponential per element and one per
// vector (to rescale the sum to the largest logit so far), and about 6 more operations per element; memory-bound.
// Backward: reads the logits and writes their gradient, possibly in place: 4 or 8 bytes and one exponential per
// element; memory-bound.
// Losses are added in f64, in an order that depends on the number of rows only.
#include "autograd/ops/cross_entropy.hpp"

#include <cmath>

#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"
#include "autograd/cuda/token_check.cuh"

namespace heed::cuda {
namespace {

constexpr int64_t kWidestRowOfAWarp = 2048;
constexpr int kWideThreads = 512, kSumThreads = 1024;

// Threads of a thread block whose rows are processed by thread groups of Group threads.
template <int Group>
constexpr int kThreads = Group == kWarp ? 8 * Group : Group;
template <int Group>
constexpr int kBlocks = 1536 / kThreads<Group>;  // thread blocks per multiprocessor, enough to hide memory latency
template <int Group>
__device__ __forceinline__ int64_t row_of_group() {
  return static_cast<int64_t>(blockIdx.x) * (kThreads<Group> / Group) + threadIdx.x / Group;
}

template <int N>
struct Width {
  static constexpr int value = N;
};

// Splits a row into aligned vectors of N elements, [head, body), and the elements before and after, which are moved one
// by one.
template <int N>
struct Pieces {
  int64_t head, body, count;

  template <class T>
  __device__ __forceinline__ Pieces(const T* row, int64_t count_) : count(count_) {
    const int64_t behind = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T)) % N;
    head = min(behind == 0 ? int64_t{0} : N - behind, count);
    body = head + (count - head) / N * N;
  }
};

// Calls f(x, i) for the elements of a row that this thread processes; x holds elements i and following. Prefetches the
// next vector during f.
template <int Group, int N, class T, class F>
__device__ __forceinline__ void for_each_chunk(const T* row, int64_t count, F f) {
  const Pieces<N> pieces(row, count);
  const int lane = static_cast<int>(threadIdx.x) % Group;
  if (lane < pieces.head) f(load<1>(row + lane), lane);
  constexpr int64_t kStep = Group * N;
  int64_t i = pieces.head + static_cast<int64_t>(lane) * N;
  Vector<T, N> next = {};
  if (i < pieces.body) next = fetch<N>(row + i);
  for (; i < pieces.body; i += kStep) {
    const Floats<N> x = to_floats(next);
    if (i + kStep < pieces.body) next = fetch<N>(row + i + kStep);
    f(x, i);
  }
  if (pieces.body + lane < count) f(load<1>(row + pieces.body + lane), pieces.body + lane);
}

template <int Group, int N, class T>
__device__ __forceinline__ void fill_zeros(T* row, int64_t count) {
  const Pieces<N> pieces(row, count);
  const int lane = static_cast<int>(threadIdx.x) % Group;
  if (lane < pieces.head) store(row + lane, Floats<1>{});
  for (int64_t i = pieces.head + static_cast<int64_t>(lane) * N; i < pieces.body; i += Group * N) {
    store(row + i, Floats<N>{});
  }
  if (pieces.body + lane < count) store(row + pieces.body + lane, Floats<1>{});
}

// e^x for x <= 0. bf16 uses the fast instruction: its error of 2 |x| ulp in f32 is far below the 8-bit precision of the
// logits.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == 2) {
    return __expf(x);
  } else {
    return expf(x);
  }
}

// Online softmax: the largest of some logits, and the sum of e^(x - largest). NaN is ignored in `largest` but
// propagates to `sum`.
struct Softmax {
  float largest = -INFINITY, sum = 0;
};
// Subtracted from logits in exponents: if all are -Inf, e^-Inf = 0 is computed and not e^(-Inf + Inf) = NaN.
__device__ __forceinline__ float base(float largest) { return largest == -INFINITY ? 0.0f : largest; }

template <class T, int N>
__device__ __forceinline__ void include(Softmax& softmax, const Floats<N>& x) {
  float largest = softmax.largest;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = fmaxf(largest, x.value[i]);
  const float from = base(largest);
  float sum = softmax.sum * exponential<T>(softmax.largest - from);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += exponential<T>(x.value[i] - from);
  softmax = {largest, sum};
}
__device__ __forceinline__ Softmax merge(Softmax a, Softmax b) {
  const float largest = fmaxf(a.largest, b.largest), from = base(largest);
  return {largest, a.sum * expf(a.largest - from) + b.sum * expf(b.largest - from)};
}

// Merges over the threads of a thread group; the result, of its row, is in its first thread.
template <int Group>
__device__ __forceinline__ Softmax merge_over_group(Softmax mine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    mine =
        merge(mine, {__shfl_down_sync(kFullWarp, mine.largest, offset), __shfl_down_sync(kFullWarp, mine.sum, offset)});
  }
  if constexpr (Group > kWarp) {
    __shared__ Softmax partial[Group / kWarp];
    if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < Group / kWarp; ++warp) mine = merge(mine, partial[warp]);
    }
  }
  return mine;
}

template <class T>
struct LossRows {
  double* losses;
  float *row_max, *row_sum;
  const T* logits;
  const int32_t* targets;
  int64_t rows, columns, vocab;
  int32_t ignored;
};

__device__ __forceinline__ bool is_counted(int32_t target, int64_t vocab, int32_t ignored) {
  return target != ignored && target >= 0 && target < vocab;
}

template <int Group, int N, class T>
__global__ void __launch_bounds__(kThreads<Group>, kBlocks<Group>) row_losses_kernel(LossRows<T> p) {
  const int64_t row = row_of_group<Group>();
  if (row >= p.rows) return;
  const int32_t target = p.targets[row];
  const bool first = threadIdx.x % Group == 0;
  if (!is_counted(target, p.vocab, p.ignored)) {
    if (first) p.losses[row] = 0;
    return;
  }
  const T* logits = p.logits + row * p.columns;
  Softmax softmax;
  for_each_chunk<Group, N>(logits, p.vocab, [&](const auto& x, int64_t) { include<T>(softmax, x); });
  softmax = merge_over_group<Group>(softmax);
  if (!first) return;
  p.row_max[row] = softmax.largest;
  p.row_sum[row] = softmax.sum;
  p.losses[row] = (static_cast<double>(softmax.largest) - static_cast<double>(to_float(logits[target]))) +
                  static_cast<double>(logf(softmax.sum));
}

struct TargetCount {
  double* weight;
  const int32_t* targets;
  int64_t rows;
  int32_t ignored;
  DeviceScalar<double> denominator;  // 0: the number of targets that are not ignored
  TokenCheck check;
};

__global__ void __launch_bounds__(kSumThreads) count_targets_kernel(TargetCount p) {
  double counted = 0;
  for (int64_t row = threadIdx.x; row < p.rows; row += kSumThreads) {
    const int32_t target = p.targets[row];
    if (target != p.ignored && allows(p.check, target, row)) ++counted;
  }
  counted = block_reduce<kSumThreads>(counted, 0.0, Sum{});
  if (threadIdx.x != 0) return;
  const double given = p.denominator.get();
  *p.weight = counted > 0 ? 1 / (given > 0 ? given : counted) : 0;
}

struct LossSum {
  float* loss;
  const double *losses, *weight;
  int64_t rows;
};

__global__ void __launch_bounds__(kSumThreads) sum_losses_kernel(LossSum p) {
  double total = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < p.rows; row += kSumThreads) total += p.losses[row];
  total = block_reduce<kSumThreads>(total, 0.0, Sum{});
  if (threadIdx.x == 0) *p.loss = static_cast<float>(total * *p.weight);
}

template <class T>
struct GradientRows {
  T* dlogits;
  bool add;
  const float* dloss;
  const double* weight;
  const T* logits;
  const int32_t* targets;
  const float *row_max, *row_sum;
  int64_t rows, columns, vocab;
  int32_t ignored;
};

template <int Group, int N, class T>
__global__ void __launch_bounds__(kThreads<Group>, kBlocks<Group>) cross_entropy_backward_kernel(GradientRows<T> p) {
  const int64_t row = row_of_group<Group>();
  if (row >= p.rows) return;
  const int32_t target = p.targets[row];
  const T* logits = p.logits + row * p.columns;
  T* dlogits = p.dlogits + row * p.columns;
  const bool counts = is_counted(target, p.vocab, p.ignored);
  if (!p.add && counts) fill_zeros<Group, N>(dlogits + p.vocab, p.columns - p.vocab);
  if (!p.add && !counts) fill_zeros<Group, N>(dlogits, p.columns);
  if (!counts) return;
  const float gradient = static_cast<float>(static_cast<double>(*p.dloss) * *p.weight);
  const float largest = p.row_max[row], per_exponential = gradient / p.row_sum[row];
  for_each_chunk<Group, N>(logits, p.vocab, [&](const auto& x, int64_t i) {
    constexpr int kCount = sizeof(x.value) / sizeof(float);
    Floats<kCount> sum = p.add ? load<kCount>(dlogits + i) : Floats<kCount>{};
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float value = exponential<T>(x.value[j] - largest) * per_exponential;
      sum.value[j] += i + j == target ? value - gradient : value;
    }
    store(dlogits + i, sum);
  });
}

// Calls f(Width<Group>, Width<N>): the thread group for rows of this width, and the vector that these addresses allow.
template <class T, class F, class... Address>
void visit_groups(int64_t columns, F f, const Address*... addresses) {
  constexpr int kVector = kPerVector<T>;
  const auto with_width = [&](auto width) {
    columns > kWidestRowOfAWarp ? f(Width<kWideThreads>{}, width) : f(Width<kWarp>{}, width);
  };
  can_move<kVector>(0, addresses...) ? with_width(Width<kVector>{}) : with_width(Width<1>{});
}

template <class T>
void losses_of_rows(const LossRows<T>& p) {
  visit_groups<T>(
      p.vocab,
      [&](auto group, auto width) {
        constexpr int kGroup = decltype(group)::value;
        launch(row_losses_kernel<kGroup, decltype(width)::value, T>,
               {blocks_for(p.rows, kThreads<kGroup> / kGroup), kThreads<kGroup>}, p);
      },
      p.logits);
}

template <class T>
void differentiate(const GradientRows<T>& p) {
  visit_groups<T>(
      p.vocab,
      [&](auto group, auto width) {
        constexpr int kGroup = decltype(group)::value;
        launch(cross_entropy_backward_kernel<kGroup, decltype(width)::value, T>,
               {blocks_for(p.rows, kThreads<kGroup> / kGroup), kThreads<kGroup>}, p);
      },
      p.logits, p.dlogits);
}

}  // namespace

void cross_entropy_weight(Context&, const CrossEntropyWeight& p) {
  launch(count_targets_kernel, {1, kSumThreads},
         {.weight = elements<double>(p.weight),
          .targets = elements<int32_t>(p.targets),
          .rows = p.targets.shape.numel(),
          .ignored = p.options.ignore_index,
          .denominator = p.options.denominator,
          .check = token_check(p.token_range())});
}

void cross_entropy_rows(Context&, const CrossEntropyRows& p) {
  const int64_t rows = p.targets.shape.numel();
  if (rows == 0) return;
  visit_elements("cross_entropy", p.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    losses_of_rows<T>({.losses = elements<double>(p.losses),
                       .row_max = elements<float>(p.row_max),
                       .row_sum = elements<float>(p.row_sum),
                       .logits = elements<T>(p.logits),
                       .targets = elements<int32_t>(p.targets),
                       .rows = rows,
                       .columns = p.logits.shape.columns(),
                       .vocab = p.options.vocab,
                       .ignored = p.options.ignore_index});
  });
}

void cross_entropy_sum(Context&, const CrossEntropySum& p) {
  launch(sum_losses_kernel, {1, kSumThreads},
         {.loss = elements<float>(p.loss),
          .losses = elements<double>(p.losses),
          .weight = elements<double>(p.weight),
          .rows = p.losses.shape.numel()});
}

void cross_entropy_backward(Context&, const CrossEntropyBackward& p) {
  const int64_t rows = p.targets.shape.numel();
  if (!p.dlogits || rows == 0) return;
  visit_elements("cross_entropy", p.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    differentiate<T>({.dlogits = elements<T>(p.dlogits.ref),
                      .add = p.dlogits.add,
                      .dloss = elements<float>(p.dloss),
                      .weight = elements<double>(p.weight),
                      .logits = elements<T>(p.logits),
                      .targets = elements<int32_t>(p.targets),
                      .row_max = elements<float>(p.row_max),
                      .row_sum = elements<float>(p.row_sum),
                      .rows = rows,
                      .columns = p.logits.shape.columns(),
                      .vocab = p.options.vocab,
                      .ignored = p.options.ignore_index});
  });
}

}  // namespace heed::cuda
