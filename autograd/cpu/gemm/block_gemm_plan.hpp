// Cache blocking of the blocked GEMM and its division among the threads.
#pragma once

#include <algorithm>
#include <vector>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/gemm/block_gemm.hpp"
#include "autograd/cpu/line.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {

// NC, the columns of C, and KC, the length of k, that a thread processes at a time. In A^T, consecutive k are far apart
// in memory, so that only a small KC stays in L1.
inline constexpr int64_t kColumns = 512, kSteps = 512, kTransposedSteps = 128;
// Upper bounds of MR and NR over all instruction sets. Work items are multiples of these, whatever the instruction set.
inline constexpr int64_t kMostRows = 8, kMostColumns = 32;

// Work items per thread, so that some are left for work stealing. For A^T only one per thread, since each work item
// reads all rows of B again.
inline constexpr int64_t kSharesOfThread = 4;

// A work item: a part of C and the range [step, end_step) of k. `starts`: this range is the first for these elements,
// so C starts from 0 (or from C with Gemm::add) plus the bias; otherwise the range accumulates into C.
struct WorkItem {
  Part part = {};
  int64_t step = 0, end_step = 0;
  bool starts = true;
};

// A GEMM and the data that its work items have in common.
template <class T>
struct BlockCall {
  const Gemm<T>* product;
  const WorkItem* whole;      // the range of C and k that was divided
  const T* panels = nullptr;  // B^T of `whole`, packed
  const Epilogue* done = nullptr;
};

// Whether to use split-K. A weight gradient accumulates over the rows of a batch, of which each thread has one half in
// its caches. The two halves of k are summed separately and then added. This costs one more pass over C, but saves
// reading half of A and B from the caches of the other core: 7 % of a training step if the two cores share no cache,
// nothing if they do.
template <class T>
bool use_split_k(const Gemm<T>& g) {
  return g.transpose_a && !g.transpose_b && g.k >= 2 * kTransposedSteps && g.m * g.n <= (1 << 17);
}

// Layout of the scratch memory of a thread for edge tiles, in elements: a register tile of C at 0, MR rows of A at
// `left`, a panel of B at `panel`.
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

// Number of threads for a GEMM: limited by the amount of work, so that waking a thread pays off, and by the number of
// work items, so that no thread has scratch memory without work.
template <class T>
int64_t block_threads(const Gemm<T>& g) {
  constexpr int64_t kGrainOperations = 1 << 16;
  const int64_t pieces = g.m >= g.n ? ceil_divide(g.m, kMostRows) : ceil_divide(g.n, kMostColumns);
  const int64_t shares = use_split_k(g) ? 2 * pieces : pieces;
  return std::clamp<int64_t>(g.m * g.n * g.k / kGrainOperations, 1, std::min<int64_t>(shares, max_threads()));
}

// Calls run(i, share, thread) for work items `share` of whole[i], all of about the same size. Work stealing: each
// thread first processes its own chunk of C (split along the longer side), then leftover work items of other threads.
// If one thread is delayed, the others wait less.
template <class Run>
void for_each_work_item(const std::vector<WorkItem>& whole, int64_t shares_of_thread, int64_t threads, const Run& run) {
  const Part all = whole[0].part;
  const int64_t rows = all.end_row - all.row, columns = all.end_column - all.column;
  const bool by_rows = rows >= columns;
  const int64_t size = by_rows ? kMostRows : kMostColumns, pieces = ceil_divide(by_rows ? rows : columns, size);
  const int64_t shares = std::min(pieces, ceil_divide(threads * shares_of_thread, std::ssize(whole)));
  parallel_tasks(std::ssize(whole) * shares, threads, [&](int64_t task, int64_t thread) {
    const int64_t i = task / shares, number = task % shares;
    const int64_t begin = pieces * number / shares * size, end = pieces * (number + 1) / shares * size;
    WorkItem share = whole[static_cast<size_t>(i)];
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
