// Who computes what of a product by blocks.
#pragma once

#include <algorithm>
#include <vector>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/gemm/block_gemm.hpp"
#include "autograd/cpu/line.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {

// Columns of C and steps of k that a thread works on at a time. Rows of A lie far apart where it is transposed, and so
// few of them stay in first-level cache.
inline constexpr int64_t kColumns = 512, kSteps = 512, kTransposedSteps = 128;
// Rows of a strip and columns of a panel, at most. Shares are made of these, whatever the instruction set.
inline constexpr int64_t kMostRows = 8, kMostColumns = 32;

// Shares for each thread, so that there is something left to take over. One for a transposed A: each share reads all of
// B's rows again.
inline constexpr int64_t kSharesOfThread = 4;

// A part of C and the steps [step, end_step) of k, with which its sums start or go on.
struct BlockShare {
  Part part = {};
  int64_t step = 0, end_step = 0;
  bool starts = true;
};

// A product with what its shares have in common.
template <class T>
struct BlockCall {
  const Gemm<T>* product;
  const BlockShare* whole;    // of which the shares are
  const T* panels = nullptr;  // of a transposed B, of that whole
  const PartDone* done = nullptr;
};

// A gradient of weights sums over the rows of a batch, of which a thread has one half in its caches. Each half is
// summed by itself and then added to C: half of C is one pass more, against half of A and B from the other core's
// caches: 7 % of an update where two cores share no cache, nothing where they do.
template <class T>
bool in_halves(const Gemm<T>& g) {
  return g.transpose_a && !g.transpose_b && g.k >= 2 * kTransposedSteps && g.m * g.n <= (1 << 17);
}

// Offsets of what a thread needs at the edges, in elements: a block of C, a strip of A, a panel of B.
struct EdgeScratch {
  int64_t left, panel, elements;

  template <class T>
  explicit EdgeScratch(const Gemm<T>& g) {
    const int64_t steps = std::min(g.k, g.transpose_a ? kTransposedSteps : kSteps);
    left = kMostRows * kMostColumns;
    panel = left + (g.m % kMostRows > 0 ? kMostRows * steps : 0);
    elements = padded<T>(panel + (!g.transpose_b && g.n % kMostColumns > 0 ? kMostColumns * steps : 0));
  }
};

// Threads for a product: another one is woken only where there is enough for it to do, and has scratch memory only
// where there is a share for it.
template <class T>
int64_t block_threads(const Gemm<T>& g) {
  constexpr int64_t kGrainOperations = 1 << 16;
  const int64_t pieces = g.m >= g.n ? ceil_divide(g.m, kMostRows) : ceil_divide(g.n, kMostColumns);
  const int64_t shares = in_halves(g) ? 2 * pieces : pieces;
  return std::clamp<int64_t>(g.m * g.n * g.k / kGrainOperations, 1, std::min<int64_t>(shares, max_threads()));
}

// Calls run(i, share, thread) for shares of whole[i], all of one size. A thread begins with rows of C of its own, or
// columns where there are more of those, and then takes from the others' what is left: where one is held up, the others
// wait less.
template <class Run>
void for_each_share(const std::vector<BlockShare>& whole, int64_t shares_of_thread, int64_t threads, const Run& run) {
  const Part all = whole[0].part;
  const int64_t rows = all.end_row - all.row, columns = all.end_column - all.column;
  const bool by_rows = rows >= columns;
  const int64_t size = by_rows ? kMostRows : kMostColumns, pieces = ceil_divide(by_rows ? rows : columns, size);
  const int64_t shares = std::min(pieces, ceil_divide(threads * shares_of_thread, std::ssize(whole)));
  parallel_tasks(std::ssize(whole) * shares, threads, [&](int64_t task, int64_t thread) {
    const int64_t i = task / shares, number = task % shares;
    const int64_t begin = pieces * number / shares * size, end = pieces * (number + 1) / shares * size;
    BlockShare share = whole[static_cast<size_t>(i)];
    if (by_rows) {
      share.part.row = all.row + begin;
      share.part.end_row = std::min(all.row + end, all.end_row);
    } else {
      share.part.column = all.column + begin;
      share.part.end_column = std::min(all.column + end, all.end_column);
    }
    run(i, share, thread);
  });
}

}  // namespace heed::cpu
