// Loop nest of the blocked GEMM over one work item (WorkItem), with the loops and names of BLIS:
//   for NC = kColumns columns of C
//     for KC = kSteps of k (kTransposedSteps for A^T)
//       for MR = kStrip rows
//         for NR = panel_width() columns: micro-kernel
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

#include "autograd/cpu/gemm/block.hpp"
#include "autograd/cpu/gemm/block_gemm_plan.hpp"
#include "autograd/cpu/gemm/panels.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// Software prefetch of a part of a matrix, spread evenly over `calls` calls of ask(). Together with expect_writes() it
// saves 2 % of a training step.
template <class T>
class Ahead {
 public:
  Ahead() = default;
  Ahead(const T* from, int64_t stride, int64_t rows, int64_t columns, int64_t calls)
      : row_(from), stride_(stride), rows_(rows), columns_(columns) {
    lines_ = ceil_divide(rows * ceil_divide(columns, kLine<T>), calls);
  }

  HWY_INLINE void ask() {
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
struct BlockWork {
  T* c;
  int64_t c_stride;
  bool adds;
  const T* bias;  // or null; run_block() requires null if `adds`
  Left<T> left;
  const T* right;
  int64_t right_stride, steps;
};

// The micro-kernel for a full register tile. It is not inlined: g++ would run out of registers and spill the B operand,
// which is 25 % slower. One stride of A is a compile-time constant, so that the FMAs read A directly from memory.
template <class T, bool kTransposed>
HWY_NOINLINE void run_block(const BlockWork<T>& w) {
  const hn::ScalableTag<T> d;
  Block<hn::ScalableTag<T>, 2> block(d);
  if (w.adds) block.load(d, w.c, w.c_stride);
  if (w.bias != nullptr) block.load(d, w.bias, 0);
  const Left<T> left{w.left.data, kTransposed ? 1 : w.left.row_stride, kTransposed ? w.left.step_stride : 1};
  block.add(d, left, w.right, w.right_stride, 0, w.steps);
  block.store(d, w.c, w.c_stride);
}

// Packs B^T into panels: the columns [begin, end) of `of.part`, over the k range of `of`. It is not inlined for the
// same reason.
template <class T>
HWY_NOINLINE void pack_transposed(const Gemm<T>& g, const WorkItem& of, int64_t begin, int64_t end, T* panels) {
  const int64_t steps = of.end_step - of.step;
  pack_panels(g.b + (of.part.column + begin) * g.k + of.step, g.k, end - begin, steps, T(1), panels + begin * steps);
}

// Computes one work item `share`. `panels`: B^T packed for the columns and the k range of `whole`, or null.
template <class T>
class BlockGemm {
 public:
  BlockGemm(const Gemm<T>& g, const WorkItem& whole, const WorkItem& share, const T* panels, T* scratch)
      : g_(g), whole_(whole), share_(share), panels_(panels) {
    const EdgeScratch edges(g);
    edge_c_ = scratch;
    edge_left_ = scratch + edges.left;
    edge_panel_ = scratch + edges.panel;
  }

  void run(const Epilogue* done) {
    const Part& part = share_.part;
    const int64_t most = g_.transpose_a ? kTransposedSteps : kSteps;
    for (column_ = part.column; column_ < part.end_column; column_ += kColumns) {
      columns_ = std::min(kColumns, part.end_column - column_);
      for (step_ = share_.step; step_ < share_.end_step; step_ += most) {
        steps_ = std::min(most, share_.end_step - step_);
        if (!g_.transpose_b) take_edge();
        if (g_.transpose_a) prefetch_next_k(std::min(most, share_.end_step - step_ - steps_));
        for (row_ = part.row; row_ < part.end_row; row_ += kStrip) {
          strip();
          if (done != nullptr && step_ + steps_ == g_.k) (*done)({row_, row_ + rows_, column_, column_ + columns_});
        }
      }
    }
  }

 private:
  // Packs the last columns of B, fewer than NR, into a panel padded with zeros.
  void take_edge() {
    const int64_t width = panel_width<T>(), rest = columns_ % width;
    if (rest == 0) return;
    const T* from = g_.b + step_ * g_.n + column_ + columns_ - rest;
    T* to = edge_panel_;
    for (int64_t k = 0; k < steps_; ++k, from += g_.n, to += width) {
      std::fill(std::copy_n(from, rest, to), to + width, T(0));
    }
  }

  // For A^T, prefetches the next KC range of A and B during this one: saved activations are usually out of cache.
  void prefetch_next_k(int64_t next_steps) {
    if (next_steps == 0) return;
    const int64_t next = step_ + steps_, rows = share_.part.end_row - share_.part.row;
    const int64_t blocks = ceil_divide(rows, kStrip) * ceil_divide(columns_, panel_width<T>());
    left_ahead_ = Ahead<T>(g_.a + next * g_.m + share_.part.row, g_.m, next_steps, rows, blocks);
    if (g_.transpose_b) return;
    right_ahead_ = Ahead<T>(g_.b + next * g_.n + column_, g_.n, next_steps, columns_, blocks);
  }

  void strip() {
    rows_ = std::min(kStrip, share_.part.end_row - row_);
    Left<T> left =
        g_.transpose_a ? Left<T>{g_.a + step_ * g_.m + row_, 1, g_.m} : Left<T>{g_.a + row_ * g_.k + step_, g_.k, 1};
    if (rows_ < kStrip) left = edge_left(left);
    over_panels(left);
  }

  // Copies the last rows of A, fewer than MR, and pads them with zeros.
  Left<T> edge_left(const Left<T>& left) {
    for (int64_t k = 0; k < steps_; ++k) {
      for (int64_t r = 0; r < kStrip; ++r) {
        edge_left_[k * kStrip + r] = r < rows_ ? left.data[r * left.row_stride + k * left.step_stride] : T(0);
      }
    }
    return {edge_left_, 1, kStrip};
  }

  void over_panels(const Left<T>& left) {
    const int64_t width = panel_width<T>();
    const bool starts = step_ == share_.step && share_.starts, sums = g_.add || !starts;
    for (int64_t j = 0; j < columns_; j += width) {
      const int64_t column = column_ + j, columns = std::min(width, columns_ - j);
      BlockWork<T> work{.c = g_.c + row_ * g_.n + column,
                        .c_stride = g_.n,
                        .adds = sums,
                        .bias = g_.bias != nullptr && starts ? g_.bias + column : nullptr,
                        .left = left,
                        .right = g_.b + step_ * g_.n + column,
                        .right_stride = g_.n,
                        .steps = steps_};
      if (g_.transpose_b || columns < width) {
        work.right = g_.transpose_b ? panel(column) : edge_panel_;
        work.right_stride = width;
      }
      left_ahead_.ask();
      right_ahead_.ask();
      if (columns < width || rows_ < kStrip || (sums && work.bias != nullptr)) {
        run_edge(work, columns);
      } else {
        if (!sums) expect_writes(work.c);
        run_whole(work);
      }
    }
  }

  const T* panel(int64_t column) const {
    return panels_ + (column - whole_.part.column) * (whole_.end_step - whole_.step) +
           (step_ - whole_.step) * panel_width<T>();
  }

  static void run_whole(const BlockWork<T>& work) {
    work.left.row_stride == 1 ? run_block<T, true>(work) : run_block<T, false>(work);
  }

  HWY_INLINE void expect_writes(const T* c) const {
    for (int64_t r = 0; r < kStrip; ++r) {
      for (int64_t j = 0; j < panel_width<T>(); j += kLine<T>) hwy::Prefetch(c + r * g_.n + j);
    }
  }

  // Edge tile, or beta = 1 with a bias: computes a full tile in scratch memory, then copies the valid part.
  void run_edge(BlockWork<T> work, int64_t columns) {
    const int64_t width = panel_width<T>();
    std::fill_n(edge_c_, kStrip * width, T(0));
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t j = 0; j < columns; ++j) {
        edge_c_[r * width + j] =
            (work.adds ? work.c[r * g_.n + j] : T(0)) + (work.bias != nullptr ? work.bias[j] : T(0));
      }
    }
    T* c = std::exchange(work.c, edge_c_);
    work.c_stride = width;
    work.adds = true;
    work.bias = nullptr;
    run_whole(work);
    for (int64_t r = 0; r < rows_; ++r) std::copy_n(edge_c_ + r * width, columns, c + r * g_.n);
  }

  const Gemm<T>& g_;
  const WorkItem &whole_, &share_;
  const T* panels_;
  T *edge_c_, *edge_left_, *edge_panel_;
  Ahead<T> left_ahead_, right_ahead_;
  int64_t column_ = 0, columns_ = 0, step_ = 0, steps_ = 0, row_ = 0, rows_ = 0;  // current position of the loops
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
