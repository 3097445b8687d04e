// Loop nest of the blocked GEMM over one work item (WorkItem), with the names of BLIS (NC, KC, NR, MR), without its MC
// loop and with the MR loop outside the NR loop:
//   for NC columns of C
//     for KC of k (kTransposedKC for A^T)
//       for kMR rows
//         for NR (panel_width()) columns: micro-kernel
// The MR x KC part of A stays in L1; the KC x NC part of B stays in L2 for small models. B is read in place, except for
// B^T, which is packed into panels beforehand, and for the incomplete last panel. C is read and written once per KC.
// Measured and rejected: swapping the NR and MR loops writes C in narrow columns and made a training step 5 % slower.
//
// Included once per instruction set, like simd.hpp.
#if defined(HEED_AUTOGRAD_CPU_BLOCK_GEMM_KERNEL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_BLOCK_GEMM_KERNEL_HPP
#undef HEED_AUTOGRAD_CPU_BLOCK_GEMM_KERNEL_HPP
#else
#define HEED_AUTOGRAD_CPU_BLOCK_GEMM_KERNEL_HPP
#endif

#include <utility>

#include "autograd/cpu/gemm/block_gemm.hpp"
#include "autograd/cpu/gemm/micro_kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// Software prefetch of a part of a matrix, spread evenly over `calls` calls of prefetch(). Together with prefetch_c()
// it saves 2 % of a training step.
template <class T>
class Prefetcher {
 public:
  Prefetcher() = default;
  Prefetcher(const T* from, int64_t stride, int64_t rows, int64_t columns, int64_t calls)
      : row_(from), stride_(stride), rows_(rows), columns_(columns) {
    lines_ = ceil_divide(rows * ceil_divide(columns, kLine<T>), calls);
  }

  HWY_INLINE void prefetch() {
    for (int64_t line = 0; line < lines_ && rows_ > 0; ++line) {
      hwy::Prefetch(row_ + column_);
      column_ += kLine<T>;
      if (column_ < columns_) continue;
      column_ = 0;
      row_ += stride_;
      --rows_;
    }
  }

 private:
  const T* row_ = nullptr;
  int64_t stride_ = 0, rows_ = 0, columns_ = 0, column_ = 0, lines_ = 0;
};

// Arguments of the micro-kernel: a register tile of C, its initial values, and the A and B operands.
template <class T>
struct MicroKernelCall {
  T* c;
  int64_t c_stride;
  bool accumulates;
  const T* bias;  // or null; micro_kernel() requires null if `accumulates`
  OperandA<T> a;
  const T* b;
  int64_t b_stride, kc;
};

// The micro-kernel for a full register tile. It is not inlined: g++ would run out of registers and spill the B operand,
// which is 25 % slower. One stride of A is a compile-time constant, so that the FMAs read A directly from memory.
template <class T, bool kTransposed>
HWY_NOINLINE void micro_kernel(const MicroKernelCall<T>& w) {
  const hn::ScalableTag<T> d;
  RegisterTile<hn::ScalableTag<T>, 2> tile(d);
  if (w.accumulates) tile.load(d, w.c, w.c_stride);
  if (w.bias != nullptr) tile.load(d, w.bias, 0);
  const OperandA<T> a{w.a.data, kTransposed ? 1 : w.a.row_stride, kTransposed ? w.a.step_stride : 1};
  tile.add(d, a, w.b, w.b_stride, 0, w.kc);
  tile.store(d, w.c, w.c_stride);
}

// Packs B^T into panels: the columns [begin, end) of `of.part`, over the k range of `of`. It is not inlined for the
// same reason.
template <class T>
HWY_NOINLINE void pack_transposed(const Gemm<T>& g, const WorkItem& of, int64_t begin, int64_t end, T* panels) {
  const int64_t kc = of.end_k - of.k;
  pack_panels(g.b + (of.part.column + begin) * g.k + of.k, g.k, end - begin, kc, T(1), panels + begin * kc);
}

// Computes one work item `item`. `panels`: B^T packed for the columns and the k range of `whole`, or null.
template <class T>
class BlockGemm {
 public:
  BlockGemm(const Gemm<T>& g, const WorkItem& whole, const WorkItem& item, const T* panels, T* scratch)
      : g_(g), whole_(whole), item_(item), panels_(panels) {
    const EdgeScratch edges(g);
    edge_c_ = scratch;
    edge_a_ = scratch + edges.a;
    edge_b_ = scratch + edges.b;
  }

  void run(const Epilogue* epilogue) {
    const Part& part = item_.part;
    const int64_t most = g_.transpose_a ? kTransposedKC : kKC;
    for (column_ = part.column; column_ < part.end_column; column_ += kNC) {
      columns_ = std::min(kNC, part.end_column - column_);
      for (k_ = item_.k; k_ < item_.end_k; k_ += most) {
        kc_ = std::min(most, item_.end_k - k_);
        if (!g_.transpose_b) pack_edge_columns();
        if (g_.transpose_a) prefetch_next_k(std::min(most, item_.end_k - k_ - kc_));
        for (row_ = part.row; row_ < part.end_row; row_ += kMR) {
          run_rows();
          if (epilogue != nullptr && k_ + kc_ == g_.k) (*epilogue)({row_, row_ + rows_, column_, column_ + columns_});
        }
      }
    }
  }

 private:
  // Packs the last columns of B, fewer than NR, into a panel padded with zeros.
  void pack_edge_columns() {
    const int64_t width = panel_width<T>(), rest = columns_ % width;
    if (rest == 0) return;
    const T* from = g_.b + k_ * g_.n + column_ + columns_ - rest;
    T* to = edge_b_;
    for (int64_t k = 0; k < kc_; ++k, from += g_.n, to += width) {
      std::fill(std::copy_n(from, rest, to), to + width, T(0));
    }
  }

  // For A^T, prefetches the next KC range of A and B during this one: saved activations are usually out of cache.
  void prefetch_next_k(int64_t next_kc) {
    if (next_kc == 0) return;
    const int64_t next = k_ + kc_, rows = item_.part.end_row - item_.part.row;
    const int64_t blocks = ceil_divide(rows, kMR) * ceil_divide(columns_, panel_width<T>());
    a_prefetcher_ = Prefetcher<T>(g_.a + next * g_.m + item_.part.row, g_.m, next_kc, rows, blocks);
    if (g_.transpose_b) return;
    b_prefetcher_ = Prefetcher<T>(g_.b + next * g_.n + column_, g_.n, next_kc, columns_, blocks);
  }

  void run_rows() {
    rows_ = std::min(kMR, item_.part.end_row - row_);
    OperandA<T> a =
        g_.transpose_a ? OperandA<T>{g_.a + k_ * g_.m + row_, 1, g_.m} : OperandA<T>{g_.a + row_ * g_.k + k_, g_.k, 1};
    if (rows_ < kMR) a = pack_edge_rows(a);
    run_panels(a);
  }

  // Copies the last rows of A, fewer than MR, and pads them with zeros.
  OperandA<T> pack_edge_rows(const OperandA<T>& a) {
    for (int64_t k = 0; k < kc_; ++k) {
      for (int64_t r = 0; r < kMR; ++r) {
        edge_a_[k * kMR + r] = r < rows_ ? a.data[r * a.row_stride + k * a.step_stride] : T(0);
      }
    }
    return {edge_a_, 1, kMR};
  }

  void run_panels(const OperandA<T>& a) {
    const int64_t width = panel_width<T>();
    const bool starts = k_ == item_.k && item_.starts, sums = g_.add || !starts;
    for (int64_t j = 0; j < columns_; j += width) {
      const int64_t column = column_ + j, columns = std::min(width, columns_ - j);
      MicroKernelCall<T> work{.c = g_.c + row_ * g_.n + column,
                              .c_stride = g_.n,
                              .accumulates = sums,
                              .bias = g_.bias != nullptr && starts ? g_.bias + column : nullptr,
                              .a = a,
                              .b = g_.b + k_ * g_.n + column,
                              .b_stride = g_.n,
                              .kc = kc_};
      if (g_.transpose_b || columns < width) {
        work.b = g_.transpose_b ? panel(column) : edge_b_;
        work.b_stride = width;
      }
      a_prefetcher_.prefetch();
      b_prefetcher_.prefetch();
      if (columns < width || rows_ < kMR || (sums && work.bias != nullptr)) {
        run_edge_tile(work, columns);
      } else {
        if (!sums) prefetch_c(work.c);
        run_full_tile(work);
      }
    }
  }

  const T* panel(int64_t column) const {
    return panels_ + (column - whole_.part.column) * (whole_.end_k - whole_.k) + (k_ - whole_.k) * panel_width<T>();
  }

  static void run_full_tile(const MicroKernelCall<T>& work) {
    work.a.row_stride == 1 ? micro_kernel<T, true>(work) : micro_kernel<T, false>(work);
  }

  HWY_INLINE void prefetch_c(const T* c) const {
    for (int64_t r = 0; r < kMR; ++r) {
      for (int64_t j = 0; j < panel_width<T>(); j += kLine<T>) hwy::Prefetch(c + r * g_.n + j);
    }
  }

  // Edge tile, or beta = 1 with a bias: computes a full tile in scratch memory, then copies the valid part.
  void run_edge_tile(MicroKernelCall<T> work, int64_t columns) {
    const int64_t width = panel_width<T>();
    std::fill_n(edge_c_, kMR * width, T(0));
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t j = 0; j < columns; ++j) {
        edge_c_[r * width + j] =
            (work.accumulates ? work.c[r * g_.n + j] : T(0)) + (work.bias != nullptr ? work.bias[j] : T(0));
      }
    }
    T* c = std::exchange(work.c, edge_c_);
    work.c_stride = width;
    work.accumulates = true;
    work.bias = nullptr;
    run_full_tile(work);
    for (int64_t r = 0; r < rows_; ++r) std::copy_n(edge_c_ + r * width, columns, c + r * g_.n);
  }

  const Gemm<T>& g_;
  const WorkItem &whole_, &item_;
  const T* panels_;
  T *edge_c_, *edge_a_, *edge_b_;
  Prefetcher<T> a_prefetcher_, b_prefetcher_;
  int64_t column_ = 0, columns_ = 0, k_ = 0, kc_ = 0, row_ = 0, rows_ = 0;  // current position of the loops
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
