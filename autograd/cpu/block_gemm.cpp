// For kColumns columns and kSteps of k at a time a thread runs over the strips of its rows, and in each over panels of
// columns: the strip of A stays in first-level cache, the panels of B in second-level cache. Only a transposed B is
// copied, into panels, as is what lies at the edges. C is read and written once for each kSteps.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/block_gemm.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/block.hpp"
#include "autograd/cpu/block_gemm_plan.hpp"
#include "autograd/cpu/panels.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// Asks for the cache lines of a part of a matrix, some at a time.
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

// A block of C: what its sums start with, and where the factors of its steps are.
template <class T>
struct BlockWork {
  T* c;
  int64_t c_stride;
  bool adds;
  const T* bias;  // or null; not where it adds
  Left<T> left;
  const T* right;
  int64_t right_stride, steps;
};

// A function of its own: inlined, g++ runs out of registers and keeps the right factor in memory, a quarter slower. One
// of the left factor's strides is a constant, so that sums take their factors straight from memory.
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

// A function of its own for the same reason.
template <class T>
HWY_NOINLINE void pack_transposed(const Gemm<T>& g, int64_t column, int64_t columns, int64_t step, int64_t steps,
                                  T* to) {
  pack_panels(g.b + column * g.k + step, g.k, columns, steps, T(1), to);
}

template <class T>
class BlockGemm {
 public:
  BlockGemm(const Gemm<T>& g, const BlockShare& share, const PartDone* done, T* scratch)
      : g_(g), part_(share.part), begin_step_(share.step), end_step_(share.end_step), done_(done) {
    const int64_t steps = std::min(g.k, kSteps);
    edge_c_ = scratch;
    edge_left_ = edge_c_ + kMostRows * kMostColumns;
    panels_ = edge_left_ + padded<T>(kMostRows * steps);
  }

  void run() {
    const int64_t most = g_.transpose_a ? kTransposedSteps : kSteps;
    for (column_ = part_.column; column_ < part_.end_column; column_ += kColumns) {
      columns_ = std::min(kColumns, part_.end_column - column_);
      step_ = begin_step_;
      do {  // once also where k is 0
        steps_ = std::min(most, end_step_ - step_);
        take_right();
        look_ahead(std::min(most, end_step_ - step_ - steps_));
        for (row_ = part_.row; row_ < part_.end_row; row_ += kStrip) strip();
        step_ += most;
      } while (step_ < end_step_);
    }
  }

 private:
  void take_right() {
    const int64_t width = panel_width<T>(), rest = columns_ % width;
    if (g_.transpose_b) {
      pack_transposed(g_, column_, columns_, step_, steps_, panels_);
    } else if (rest > 0) {
      const T* from = g_.b + step_ * g_.n + column_ + columns_ - rest;
      T* to = panels_;
      for (int64_t k = 0; k < steps_; ++k, from += g_.n, to += width) {
        std::fill(std::copy_n(from, rest, to), to + width, T(0));
      }
    }
  }

  // Where A is transposed, what the next steps read is asked for during these: saved for backward, it comes from afar.
  void look_ahead(int64_t next_steps) {
    if (!g_.transpose_a) return;
    const int64_t next = step_ + steps_, rows = part_.end_row - part_.row;
    const int64_t blocks = ceil_divide(rows, kStrip) * ceil_divide(columns_, panel_width<T>());
    left_ahead_ = Ahead<T>(g_.a + next * g_.m + part_.row, g_.m, next_steps, rows, blocks);
    right_ahead_ = Ahead<T>(g_.b + next * g_.n + column_, g_.n, next_steps, columns_, blocks);
  }

  void strip() {
    rows_ = std::min(kStrip, part_.end_row - row_);
    Left<T> left =
        g_.transpose_a ? Left<T>{g_.a + step_ * g_.m + row_, 1, g_.m} : Left<T>{g_.a + row_ * g_.k + step_, g_.k, 1};
    if (rows_ < kStrip) left = edge_left(left);
    over_panels(left);
    if (done_ != nullptr && step_ + steps_ == end_step_) {
      (*done_)({row_, row_ + rows_, column_, column_ + columns_});
    }
  }

  // A copy of the rows that there are, and of zeros.
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
    const bool sums = g_.add || step_ > begin_step_, bias = g_.bias != nullptr && step_ == begin_step_;
    for (int64_t j = 0; j < columns_; j += width) {
      const int64_t columns = std::min(width, columns_ - j);
      const bool edge = columns < width;
      T* c = g_.c + row_ * g_.n + column_ + j;
      BlockWork<T> work{.c = c,
                        .c_stride = g_.n,
                        .adds = sums,
                        .bias = bias ? g_.bias + column_ + j : nullptr,
                        .left = left,
                        .right = g_.b + step_ * g_.n + column_ + j,
                        .right_stride = g_.n,
                        .steps = steps_};
      if (g_.transpose_b || edge) {
        work.right = g_.transpose_b ? panels_ + j * steps_ : panels_;
        work.right_stride = width;
      }
      left_ahead_.ask();
      right_ahead_.ask();
      if (edge || rows_ < kStrip || (sums && bias)) {
        run_edge(work, columns);
      } else {
        if (!sums) expect_writes(c);
        run_whole(work);
      }
    }
  }

  static void run_whole(const BlockWork<T>& work) {
    work.left.row_stride == 1 ? run_block<T, true>(work) : run_block<T, false>(work);
  }

  HWY_INLINE void expect_writes(const T* c) const {
    for (int64_t r = 0; r < kStrip; ++r) {
      for (int64_t j = 0; j < panel_width<T>(); j += kLine<T>) hwy::Prefetch(c + r * g_.n + j);
    }
  }

  // An incomplete block, or one that adds and has a bias, by way of a whole one.
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
  const Part& part_;
  const int64_t begin_step_, end_step_;
  const PartDone* done_;
  T *panels_, *edge_left_, *edge_c_;
  Ahead<T> left_ahead_, right_ahead_;
  int64_t column_ = 0, columns_ = 0, step_ = 0, steps_ = 0, row_ = 0, rows_ = 0;  // of the part at work
};

template <class T>
void run_share(const Gemm<T>& g, const BlockShare& share, const PartDone* done, T* scratch) {
  BlockGemm<T>(g, share, done, scratch).run();
}
void run_f32(const Gemm<float>& g, const BlockShare& share, const PartDone* done, float* scratch) {
  run_share(g, share, done, scratch);
}
void run_f64(const Gemm<double>& g, const BlockShare& share, const PartDone* done, double* scratch) {
  run_share(g, share, done, scratch);
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(run_f32);
HWY_EXPORT(run_f64);

template <class T, class Run>
void block_gemm_of(Context& context, const Gemm<T>& g, const PartDone* done, const Run& run) {
  if (g.m == 0 || g.n == 0) return;
  const int64_t threads = block_threads(g), thread_scratch = block_scratch(g);
  const int64_t halves = in_halves(g) && done == nullptr ? 2 : 1;
  const Scratch<T> scratch(context, threads * thread_scratch + (halves - 1) * g.m * g.n);
  T* second_c = scratch.data() + threads * thread_scratch;
  Gemm<T> second = g;
  second.c = second_c;
  second.bias = nullptr;
  second.add = false;
  for_each_share(g, halves, threads, [&](const BlockShare& share, int64_t half, int64_t thread) {
    run(half == 0 ? g : second, share, done, scratch.data() + thread * thread_scratch);
  });
  if (halves == 1) return;
  parallel_for(g.m * g.n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::transform(g.c + begin, g.c + end, second_c + begin, g.c + begin, std::plus<T>());
  });
}

}  // namespace

void block_gemm(Context& context, const Gemm<float>& product, const PartDone* done) {
  block_gemm_of(context, product, done, HWY_DYNAMIC_DISPATCH(run_f32));
}
void block_gemm(Context& context, const Gemm<double>& product, const PartDone* done) {
  block_gemm_of(context, product, done, HWY_DYNAMIC_DISPATCH(run_f64));
}

bool suits_block_gemm(const Gemm<float>& g) {
  return g.transpose_a ? g.n <= 512 && g.m <= 512 : g.n * g.k <= 128 * 1024;
}

}  // namespace heed::cpu
#endif
