// Who computes what of a product by blocks.
#pragma once

#include <algorithm>
#include <functional>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/block_gemm.hpp"
#include "autograd/cpu/line.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {

// Columns of C and steps of k that a thread works on at a time. Rows of A lie far apart where it is transposed, and so
// few of them stay in first-level cache.
inline constexpr int64_t kColumns = 512, kSteps = 512, kTransposedSteps = 128;
// Rows of a strip and columns of a panel, at most. Shares are made of these, whatever the instruction set.
inline constexpr int64_t kMostRows = 8, kMostColumns = 32;

// A part of C, of the steps [step, end_step).
struct BlockShare {
  Part part;
  int64_t step, end_step;
};

// A gradient of weights sums over the rows of a batch, of which a thread has one half in its caches. Each half is
// summed by itself and then added to C: half of C is one pass more, against half of A and B from the other core's
// caches. 7 % of an update where two cores share no cache, 2 % where they do.
template <class T>
bool in_halves(const Gemm<T>& g) {
  return g.transpose_a && g.k >= 2 * kTransposedSteps && g.m * g.n <= (1 << 17);
}

// Of one thread: panels of a transposed B, or the panel at its edge; a strip of A and a block of C at the edges.
template <class T>
int64_t block_scratch(const Gemm<T>& g) {
  const int64_t steps = std::min(g.k, kSteps);
  const int64_t columns = g.transpose_b ? round_up(std::min(g.n, kColumns), kMostColumns) : kMostColumns;
  return padded<T>(columns * steps) + padded<T>(kMostRows * steps) + kMostRows * kMostColumns;
}

// Calls run(share, thread) for shares that cover the product, of which a thread has rows of C, or columns where there
// are more of them; the first `halves` of k first. `threads` as there are.
template <class T, class Run>
void for_each_share(const Gemm<T>& g, int64_t halves, int64_t threads, const Run& run) {
  const bool by_rows = g.m >= g.n;
  const int64_t size = by_rows ? kMostRows : kMostColumns, pieces = ceil_divide(by_rows ? g.m : g.n, size);
  parallel_for(threads, 1, [&](int64_t thread, int64_t end_thread) {
    for (; thread < end_thread; ++thread) {
      for (int64_t half = 0; half < halves; ++half) {
        const auto first_piece = [&](int64_t t) {
          return std::clamp<int64_t>(halves * pieces * t / threads - half * pieces, 0, pieces);
        };
        const int64_t begin = first_piece(thread) * size, end = first_piece(thread + 1) * size;
        if (begin == end) continue;
        const Part part = by_rows ? Part{begin, std::min(end, g.m), 0, g.n} : Part{0, g.m, begin, std::min(end, g.n)};
        run(BlockShare{part, g.k * half / halves, g.k * (half + 1) / halves}, half, thread);
      }
    }
  });
}

// Threads for a product: another one is woken only where there is enough for it to do.
template <class T>
int64_t block_threads(const Gemm<T>& g) {
  constexpr int64_t kGrainOperations = 1 << 16;
  return std::clamp<int64_t>(g.m * g.n * std::max<int64_t>(g.k, 1) / kGrainOperations, 1, max_threads());
}

}  // namespace heed::cpu
