// Blocked GEMM for f32 and f64 with register tiles, designed for the shapes of small models: it does not pack operands
// that fit in the L2 cache of a core, but reads them in place. Below its functions: cache blocking, and the division of
// the work among the threads.
#pragma once

#include <algorithm>
#include <vector>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/line.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {

// Accepts any shape. Each element accumulates over ascending k. For some shapes, and only without `epilogue`, k is
// split into two halves whose sums are added (split-K, use_split_k()). The bits do not depend on the number of threads.
// `epilogue`: as in gemm.hpp, or null.
void block_gemm(Context& context, const Gemm<float>& product, const Epilogue* epilogue = nullptr);
void block_gemm(Context& context, const Gemm<double>& product, const Epilogue* epilogue = nullptr);

// Returns whether block_gemm() was measured to be faster than oneDNN for this shape.
bool suits_block_gemm(const Gemm<float>& product);

// NC, the columns of C, and KC, the length of k, that a thread processes at a time. In A^T, consecutive k are far apart
// in memory, so that only a small KC stays in L1.
inline constexpr int64_t kNC = 512, kKC = 512, kTransposedKC = 128;
// Upper bounds of MR and NR over all instruction sets. Work items are multiples of these, whatever the instruction set.
inline constexpr int64_t kMaxMR = 8, kMaxNR = 32;

// Work items per thread, so that some are left for work stealing. For A^T only one per thread, since each work item
// reads all rows of B again.
inline constexpr int64_t kItemsPerThread = 4;

// A work item: a part of C and the range [k, end_k) of the inner dimension. `starts`: this range is the first for these
// elements, so C starts from 0 (or from C with Gemm::add) plus the bias; otherwise the range accumulates into C.
struct WorkItem {
  Part part = {};
  int64_t k = 0, end_k = 0;
  bool starts = true;
};

// A GEMM and the data that its work items have in common.
template <class T>
struct GemmCall {
  const Gemm<T>* product;
  const WorkItem* whole;      // the range of C and k that was divided
  const T* panels = nullptr;  // B^T of `whole`, packed
  const Epilogue* epilogue = nullptr;
};

// Whether to use split-K. A weight gradient accumulates over the rows of a batch, of which each thread has one half in
// its caches. The two halves of k are summed separately and then added. This costs one more pass over C, but saves
// reading half of A and B from the caches of the other core: 7 % of a training step if the two cores share no cache,
// nothing if they do.
template <class T>
bool use_split_k(const Gemm<T>& g) {
  return g.transpose_a && !g.transpose_b && g.k >= 2 * kTransposedKC && g.m * g.n <= (1 << 17);
}

// Layout of the scratch memory of a thread for edge tiles, in elements: a register tile of C at 0, MR rows of A at `a`,
// a panel of B at `b`.
struct EdgeScratch {
  int64_t a, b, elements;

  template <class T>
  explicit EdgeScratch(const Gemm<T>& g) {
    const int64_t kc = std::min(g.k, g.transpose_a ? kTransposedKC : kKC);
    a = kMaxMR * kMaxNR;
    b = a + (g.m % kMaxMR > 0 ? kMaxMR * kc : 0);
    elements = padded<T>(b + (!g.transpose_b && g.n % kMaxNR > 0 ? kMaxNR * kc : 0));
  }
};

// Number of threads for a GEMM: limited by the amount of work, so that waking a thread pays off, and by the number of
// work items, so that no thread has scratch memory without work.
template <class T>
int64_t gemm_threads(const Gemm<T>& g) {
  constexpr int64_t kGrainOperations = 1 << 16;
  const int64_t tiles = g.m >= g.n ? ceil_divide(g.m, kMaxMR) : ceil_divide(g.n, kMaxNR);
  const int64_t items = use_split_k(g) ? 2 * tiles : tiles;
  return std::clamp<int64_t>(g.m * g.n * g.k / kGrainOperations, 1, std::min<int64_t>(items, max_threads()));
}

// Calls run(i, item, thread) for work items `item` of whole[i], all of about the same size. Work stealing: each
// thread first processes its own chunk of C (split along the longer side), then leftover work items of other threads.
// If one thread is delayed, the others wait less.
template <class Run>
void for_each_work_item(const std::vector<WorkItem>& whole, int64_t items_per_thread, int64_t threads, const Run& run) {
  const Part all = whole[0].part;
  const int64_t rows = all.end_row - all.row, columns = all.end_column - all.column;
  const bool by_rows = rows >= columns;
  const int64_t size = by_rows ? kMaxMR : kMaxNR, tiles = ceil_divide(by_rows ? rows : columns, size);
  const int64_t items = std::min(tiles, ceil_divide(threads * items_per_thread, std::ssize(whole)));
  parallel_tasks(std::ssize(whole) * items, threads, [&](int64_t task, int64_t thread) {
    const int64_t i = task / items, number = task % items;
    const int64_t begin = tiles * number / items * size, end = tiles * (number + 1) / items * size;
    WorkItem item = whole[static_cast<size_t>(i)];
    if (by_rows) {
      item.part.row = all.row + begin;
      item.part.end_row = std::min(all.row + end, all.end_row);
    } else {
      item.part.column = all.column + begin;
      item.part.end_column = std::min(all.column + end, all.end_column);
    }
    run(i, item, thread);
  });
}

}  // namespace heed::cpu
