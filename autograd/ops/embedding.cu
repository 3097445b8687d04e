// embedding and its gradient (below), and add_positions.
#include "autograd/ops/embedding.hpp"

#include <bit>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/token_check.cuh"
#include "autograd/ops/embedding_sort.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kLargestGridY = 65535;

// Threads: one per vector of a row, rounded up to a power of two, at most a warp per row. Memory: each row is read,
// usually from L2, and written once. A token outside the table is reported to `check` and yields zeros.
template <int N, class T>
__global__ void __launch_bounds__(kThreads) embedding_kernel(T* y, const T* table, const int32_t* tokens, int64_t count,
                                                             int64_t columns, int lanes, TokenCheck check) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
  if (i >= count) return;
  const int32_t token = tokens[i];
  const bool exists = token >= 0 && token < check.range.vocabulary;
  if (!exists && lane == 0) allows(check, token, i);
  const T* row = table + (exists ? token : 0) * columns;
  for (int64_t column = static_cast<int64_t>(lane) * N; column < columns; column += lanes * N) {
    Vector<T, N> vector = fetch<N>(row + column);
    if (!exists) vector = {};
    *reinterpret_cast<Vector<T, N>*>(y + i * columns + column) = vector;
  }
}

// Threads: one per vector of a batch element, for every gridDim.y-th batch element. Memory: x read, y written once.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    add_positions_kernel(T* y, const T* x, const T* positions, int64_t batches, int64_t elements_of_batch) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= elements_of_batch) return;
  const Floats<N> position = load<N>(positions + i);
  for (int64_t batch = blockIdx.y; batch < batches; batch += gridDim.y) {
    const int64_t at = (batch * (elements_of_batch / N) + i / N) * N;  // "* N" tells nvcc that the vector is aligned
    Floats<N> sum = load<N>(x + at);
#pragma unroll
    for (int j = 0; j < N; ++j) sum.value[j] += position.value[j];
    store<N>(y + at, sum);
  }
}

// Gradient of an embedding table: a segmented sum of the rows of dy that share a token, in a tree.
//
// The tokens are sorted (embedding_sort.cuh). Then each chunk of 32 entries is summed separately. A token whose entries
// are all in one chunk is finished. The first and the last token of a chunk may continue in adjacent chunks: their
// partial sums become entries of the next level, which has a sixteenth as many entries and is summed in the same way.
// So one frequent token is as parallel as many rare ones, and the order of the sums depends on the tokens only.
//
// Threads: up to a warp per chunk and 128 columns, 4 columns each, with 4 rows in flight at a time. Memory: dy is read
// once, 2 or 4 bytes per element; partial sums of at most 1/16 of its rows are written and read in f32; table rows
// whose tokens occur are written, and read if accumulating. Memory-bound.
constexpr int kChunk = 32, kAtOnce = 4, kWidth = 4;

// One level of the tree. rows: (…, columns), indexed by the entries.
template <class T>
struct Level {
  const TokenEntry* entries = nullptr;
  int64_t count = 0;
  const T* rows = nullptr;
  float* table = nullptr;
  bool add = false;
  int64_t columns = 0;
  // The next level: two entries and rows per chunk, for its first and its last token.
  TokenEntry* next_entries = nullptr;
  float* next_rows = nullptr;
  int lanes = 0;  // threads per chunk
};

// The sum over the consecutive entries of one token within a chunk.
template <int N>
struct Run {
  Floats<N> sum = {};
  bool has_rows = false, began_before = false;
};

// Stores the sum of a run that has ended, or whose chunk has: in the table if the token has no entries in other chunks,
// else in the next level. Returns 1 if it became the chunk's first entry of the next level, 2 for the second, 0 for
// none.
template <int N, class T>
__device__ __forceinline__ unsigned finish_run(const Level<T>& p, const Run<N>& run, uint32_t token, bool goes_on,
                                               int64_t chunk, int64_t column) {
  if (!run.has_rows) return 0;
  if (run.began_before || goes_on) {
    const int which = run.began_before ? 0 : 1;
    store<N>(p.next_rows + (2 * chunk + which) * p.columns + column, run.sum);
    return 1u << which;
  }
  float* to = p.table + token * p.columns + column;
  Floats<N> sum = run.sum;
  if (p.add) {
    const Floats<N> old = load<N>(to);
#pragma unroll
    for (int i = 0; i < N; ++i) sum.value[i] += old.value[i];
  }
  store<N>(to, sum);
  return 0;
}

template <int N, class T>
__global__ void __launch_bounds__(kThreads) sum_runs_kernel(Level<T> p) {
  const int lane = static_cast<int>(threadIdx.x) % p.lanes;
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * (kThreads / p.lanes) + threadIdx.x / p.lanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * p.lanes + lane) * N;
  const int64_t begin = chunk * kChunk, end = min(begin + kChunk, p.count);
  if (begin >= end || column >= p.columns) return;
  const uint32_t first = p.entries[begin].token, last = p.entries[end - 1].token;
  unsigned became = 0;  // bit mask: which of the two entries of the next level have a row
  Run<N> run{.began_before = begin > 0 && p.entries[begin - 1].token == first};
  for (int64_t i = begin; i < end; i += kAtOnce) {
    TokenEntry entries[kAtOnce + 1];  // one more, to find where runs end
    Vector<T, N> rows[kAtOnce];
#pragma unroll
    for (int k = 0; k <= kAtOnce; ++k) {
      entries[k] = i + k < p.count ? p.entries[i + k] : TokenEntry{TokenEntry::kNoRow, TokenEntry::kNoRow};
      if (k < kAtOnce && i + k < end && entries[k].row != TokenEntry::kNoRow) {
        rows[k] = fetch<N>(p.rows + entries[k].row * p.columns + column);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k >= end) break;
      if (entries[k].row != TokenEntry::kNoRow) {
        const Floats<N> row = to_floats(rows[k]);
#pragma unroll
        for (int j = 0; j < N; ++j) run.sum.value[j] += row.value[j];
        run.has_rows = true;
      }
      const bool ends = entries[k + 1].token != entries[k].token;
      if (!ends && i + k + 1 < end) continue;
      became |= finish_run(p, run, entries[k].token, !ends, chunk, column);
      run = {};
    }
  }
  if (p.next_entries == nullptr || column != 0) return;
  for (int which = 0; which < 2; ++which) {
    const auto row = static_cast<uint32_t>(2 * chunk + which);
    p.next_entries[row] = {became >> which & 1 ? row : TokenEntry::kNoRow, which == 0 ? first : last};
  }
}

template <class T>
void sum_runs(const Context& context, Level<T> p) {
  const int64_t chunks = ceil_divide(p.count, kChunk), next = chunks > 1 ? 2 * chunks : 0;
  const Scratch<TokenEntry> next_entries(context, next);
  const Scratch<float> next_rows(context, next * p.columns);
  p.next_entries = next > 0 ? next_entries.data() : nullptr;
  p.next_rows = next_rows.data();
  const bool wide = can_move<kWidth>(p.columns, p.rows, p.table, p.next_rows);
  const int64_t vectors = p.columns / (wide ? kWidth : 1);
  p.lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, kWarp))));
  launch(wide ? sum_runs_kernel<kWidth, T> : sum_runs_kernel<1, T>,
         {{blocks_for(chunks, kThreads / p.lanes), blocks_for(vectors, p.lanes)}, kThreads}, p);
  if (next == 0) return;
  sum_runs<float>(context, {.entries = next_entries.data(),
                            .count = next,
                            .rows = next_rows.data(),
                            .table = p.table,
                            .add = p.add,
                            .columns = p.columns});
}

}  // namespace

void embedding_forward(Context&, const EmbeddingForward& p) {
  const int64_t count = p.tokens.shape.numel(), columns = p.table.shape[1];
  if (count == 0) return;
  visit_elements("embedding", p.table.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel, int64_t vectors) {
      const int lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, kWarp))));
      launch(kernel, {blocks_for(count, kThreads / lanes), kThreads}, elements<T>(p.y), elements<T>(p.table),
             elements<int32_t>(p.tokens), count, columns, lanes, token_check(p.token_range()));
    };
    constexpr int kVector = kPerVector<T>;
    can_move<kVector>(columns, elements<T>(p.y), elements<T>(p.table))
        ? run(embedding_kernel<kVector, T>, columns / kVector)
        : run(embedding_kernel<1, T>, columns);
  });
}

void embedding_backward(Context& context, const EmbeddingBackward& p) {
  if (!p.dtable) return;
  const Shape& shape = p.dtable.ref.shape;
  float* table = elements<float>(p.dtable.ref);
  if (!p.dtable.add) fill(table, 0, shape.numel() * static_cast<int64_t>(sizeof(float)));
  const int64_t count = p.tokens.shape.numel();
  if (count == 0) return;
  const SortedTokens sorted(context, elements<int32_t>(p.tokens), count, shape[0]);
  visit_elements("embedding", p.dy.dtype, [&](auto zero) {
    using T = decltype(zero);
    sum_runs<T>(context, {.entries = sorted.entries(),
                          .count = count,
                          .rows = elements<T>(p.dy),
                          .table = table,
                          .add = p.dtable.add,
                          .columns = shape[1]});
  });
}

void add_positions_forward(Context&, const AddPositionsForward& p) {
  const int64_t batches = p.x.shape[0], elements_of_batch = p.x.shape[1] * p.x.shape[2];
  if (p.x.shape.numel() == 0) return;
  visit_elements("add_positions", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kVector = kPerVector<T>;
    T* y = elements<T>(p.y);
    const T *x = elements<T>(p.x), *positions = elements<T>(p.positions);
    const bool wide = can_move<kVector>(elements_of_batch, y, x, positions);
    const unsigned blocks = blocks_for(elements_of_batch, kThreads * (wide ? kVector : 1));
    launch(wide ? add_positions_kernel<kVector, T> : add_positions_kernel<1, T>,
           {{blocks, static_cast<unsigned>(std::min(batches, kLargestGridY))}, kThreads}, y, x, positions, batches,
           elements_of_batch);
  });
}

// dpositions: the column sums of dy as a matrix (B, T * C).
void add_positions_backward(Context& context, const AddPositionsBackward& p) {
  if (!p.dpositions) return;
  const int64_t batches = p.dy.shape[0], elements_of_batch = p.dy.shape[1] * p.dy.shape[2];
  const int64_t unused = p.dpositions.ref.shape.numel() - elements_of_batch;
  visit_elements("add_positions", p.dy.dtype, [&](auto zero) {
    column_sum(context, p.dpositions, elements<decltype(zero)>(p.dy), batches, elements_of_batch);
  });
  if (p.dpositions.add || unused == 0) return;
  fill(elements<float>(p.dpositions.ref) + elements_of_batch, 0, unused * static_cast<int64_t>(sizeof(float)));
}

}  // namespace heed::cuda
