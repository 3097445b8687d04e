// For kColumns columns and kSteps or kTransposedSteps of k at a time a thread runs over strips of rows, and in each
// over panels of columns: the strip of A stays in first-level cache, B in second-level cache. Only a transposed B is
// copied, into panels that all threads share, as is what lies at the edges. C is read and written once for each kSteps.
// Measured and left: panels first and strips within, which writes C in pieces, took 5 % longer for a whole update.
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

// The panels of a transposed B that hold the columns [begin, end) of a part of C. A function of its own for the same
// reason.
template <class T>
HWY_NOINLINE void pack_transposed(const Gemm<T>& g, const BlockShare& of, int64_t begin, int64_t end, T* panels) {
  const int64_t steps = of.end_step - of.step;
  pack_panels(g.b + (of.part.column + begin) * g.k + of.step, g.k, end - begin, steps, T(1), panels + begin * steps);
}

// One share of a product; `panels` hold what `whole` has of a transposed B.
template <class T>
class BlockGemm {
 public:
  BlockGemm(const Gemm<T>& g, const BlockShare& whole, const BlockShare& share, const T* panels, T* scratch)
      : g_(g), whole_(whole), share_(share), panels_(panels) {
    edge_c_ = scratch;
    edge_left_ = edge_c_ + kMostRows * kMostColumns;
    edge_panel_ = edge_left_ + kMostRows * kSteps;
  }

  void run(const PartDone* done) {
    const Part& part = share_.part;
    const int64_t most = g_.transpose_a ? kTransposedSteps : kSteps;
    for (column_ = part.column; column_ < part.end_column; column_ += kColumns) {
      columns_ = std::min(kColumns, part.end_column - column_);
      step_ = share_.step;
      do {  // once also where k is 0
        steps_ = std::min(most, share_.end_step - step_);
        if (!g_.transpose_b) take_edge();
        if (g_.transpose_a) look_ahead(std::min(most, share_.end_step - step_ - steps_));
        for (row_ = part.row; row_ < part.end_row; row_ += kStrip) {
          strip();
          if (done != nullptr && step_ + steps_ == g_.k) (*done)({row_, row_ + rows_, column_, column_ + columns_});
        }
        step_ += most;
      } while (step_ < share_.end_step);
    }
  }

 private:
  // Columns of B that are no whole panel, as one filled up with zeros.
  void take_edge() {
    const int64_t width = panel_width<T>(), rest = columns_ % width;
    if (rest == 0) return;
    const T* from = g_.b + step_ * g_.n + column_ + columns_ - rest;
    T* to = edge_panel_;
    for (int64_t k = 0; k < steps_; ++k, from += g_.n, to += width) {
      std::fill(std::copy_n(from, rest, to), to + width, T(0));
    }
  }

  // Where A is transposed, what the next steps read is asked for during these: saved for backward, it comes from afar.
  void look_ahead(int64_t next_steps) {
    const int64_t next = step_ + steps_, rows = share_.part.end_row - share_.part.row;
    const int64_t blocks = ceil_divide(rows, kStrip) * ceil_divide(columns_, panel_width<T>());
    left_ahead_ = Ahead<T>(g_.a + next * g_.m + share_.part.row, g_.m, next_steps, rows, blocks);
    right_ahead_ = Ahead<T>(g_.b + next * g_.n + column_, g_.n, next_steps, columns_, blocks);
  }

  void strip() {
    rows_ = std::min(kStrip, share_.part.end_row - row_);
    Left<T> left =
        g_.transpose_a ? Left<T>{g_.a + step_ * g_.m + row_, 1, g_.m} : Left<T>{g_.a + row_ * g_.k + step_, g_.k, 1};
    if (rows_ < kStrip) left = edge_left(left);
    over_panels(left);
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
  const BlockShare &whole_, &share_;
  const T* panels_;
  T *edge_c_, *edge_left_, *edge_panel_;
  Ahead<T> left_ahead_, right_ahead_;
  int64_t column_ = 0, columns_ = 0, step_ = 0, steps_ = 0, row_ = 0, rows_ = 0;  // of the part at work
};

// What a product needs of an instruction set.
template <class T>
void run_share(const BlockCall<T>& c, const BlockShare& share, T* scratch) {
  BlockGemm<T>(*c.product, *c.whole, share, c.panels, scratch).run(c.done);
}
void run_f32(const BlockCall<float>& call, const BlockShare& share, float* scratch) { run_share(call, share, scratch); }
void run_f64(const BlockCall<double>& call, const BlockShare& share, double* scratch) {
  run_share(call, share, scratch);
}
void pack_f32(const Gemm<float>& g, const BlockShare& of, int64_t begin, int64_t end, float* panels) {
  pack_transposed(g, of, begin, end, panels);
}
void pack_f64(const Gemm<double>& g, const BlockShare& of, int64_t begin, int64_t end, double* panels) {
  pack_transposed(g, of, begin, end, panels);
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(run_f32);
HWY_EXPORT(run_f64);
HWY_EXPORT(pack_f32);
HWY_EXPORT(pack_f64);

template <class T>
struct Kernels {
  void (*run)(const BlockCall<T>& call, const BlockShare& share, T* scratch);
  void (*pack)(const Gemm<T>& g, const BlockShare& of, int64_t begin, int64_t end, T* panels);
};

// C += … in halves: see in_halves().
template <class T>
void run_halves(Context& context, const Gemm<T>& g, const Kernels<T>& kernels) {
  const int64_t threads = block_threads(g);
  const Scratch<T> scratch(context, threads * kEdgeScratch + g.m * g.n);
  T* second_c = scratch.data() + threads * kEdgeScratch;
  Gemm<T> second = g;
  second.c = second_c;
  second.bias = nullptr;
  second.add = false;
  const Part all{0, g.m, 0, g.n};
  const std::vector<BlockShare> halves = {{.part = all, .step = 0, .end_step = g.k / 2},
                                          {.part = all, .step = g.k / 2, .end_step = g.k}};
  for_each_share(halves, 1, threads, [&](int64_t half, const BlockShare& share, int64_t thread) {
    kernels.run({.product = half == 0 ? &g : &second, .whole = &share}, share, scratch.data() + thread * kEdgeScratch);
  });
  parallel_for(g.m * g.n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::transform(g.c + begin, g.c + end, second_c + begin, g.c + begin, std::plus<T>());
  });
}

// A transposed B is packed part by part, by all threads.
template <class T>
void run_packed(Context& context, const Gemm<T>& g, const PartDone* done, const Kernels<T>& kernels) {
  const int64_t threads = block_threads(g);
  const int64_t most_columns = round_up(std::min(g.n, kColumns), kMostColumns), most_steps = std::min(g.k, kSteps);
  const Scratch<T> scratch(context, threads * kEdgeScratch + most_columns * most_steps);
  T* panels = scratch.data() + threads * kEdgeScratch;
  for (int64_t column = 0; column < g.n; column += kColumns) {
    for (int64_t step = 0; step == 0 || step < g.k; step += kSteps) {
      const BlockShare whole{.part = {0, g.m, column, std::min(column + kColumns, g.n)},
                             .step = step,
                             .end_step = std::min(step + kSteps, g.k),
                             .starts = step == 0};
      const int64_t columns = whole.part.end_column - column;
      parallel_for(ceil_divide(columns, kMostColumns), std::max<int64_t>(1, 1024 / std::max<int64_t>(1, most_steps)),
                   [&](int64_t begin, int64_t end) {
                     kernels.pack(g, whole, begin * kMostColumns, std::min(end * kMostColumns, columns), panels);
                   });
      for_each_share({whole}, 4, threads, [&](int64_t, const BlockShare& share, int64_t thread) {
        kernels.run({&g, &whole, panels, done}, share, scratch.data() + thread * kEdgeScratch);
      });
    }
  }
}

template <class T>
void run_in_place(Context& context, const Gemm<T>& g, const PartDone* done, const Kernels<T>& kernels) {
  const int64_t threads = block_threads(g);
  const Scratch<T> scratch(context, threads * kEdgeScratch);
  const BlockShare whole{.part = {0, g.m, 0, g.n}, .step = 0, .end_step = g.k};
  for_each_share({whole}, g.transpose_a ? 1 : 4, threads, [&](int64_t, const BlockShare& share, int64_t thread) {
    kernels.run({&g, &whole, nullptr, done}, share, scratch.data() + thread * kEdgeScratch);
  });
}

template <class T>
void block_gemm_by(Context& context, const Gemm<T>& g, const PartDone* done, const Kernels<T>& kernels) {
  if (g.m == 0 || g.n == 0) return;
  if (g.transpose_b) return run_packed(context, g, done, kernels);
  if (in_halves(g) && done == nullptr) return run_halves(context, g, kernels);
  run_in_place(context, g, done, kernels);
}

}  // namespace

void block_gemm(Context& context, const Gemm<float>& product, const PartDone* done) {
  block_gemm_by(context, product, done, {HWY_DYNAMIC_DISPATCH(run_f32), HWY_DYNAMIC_DISPATCH(pack_f32)});
}
void block_gemm(Context& context, const Gemm<double>& product, const PartDone* done) {
  block_gemm_by(context, product, done, {HWY_DYNAMIC_DISPATCH(run_f64), HWY_DYNAMIC_DISPATCH(pack_f64)});
}

bool suits_block_gemm(const Gemm<float>& g) {
  return g.transpose_a ? g.n <= 512 && g.m <= 512 : g.n * g.k <= 128 * 1024;
}

}  // namespace heed::cpu
#endif
