// One pass over memory each. Threads take ranges of elements of y in expand_dim, and of tiles of the blocks of
// cpu/sum_blocks.hpp in sum_dim: which range an element is in does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/broadcast_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <iterator>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/cpu/sum_blocks.hpp"
#include "autograd/ops/broadcast.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// Calls f(zero of x's type, zero of y's type) for two dtypes with the same accumulation dtype.
template <class F>
void visit_both(DType x, DType y, F&& f) {
  visit_floating(x, [&](auto zero) {
    using T = decltype(zero);
    using Other =
        std::conditional_t<std::is_same_v<T, Bf16>, float, std::conditional_t<std::is_same_v<T, float>, Bf16, T>>;
    x == y ? f(zero, zero) : f(zero, Other{});
  });
}

// y[i] = factor * value(d, load) for a vector of elements, or +=
template <class C, class Y, class Value>
HWY_INLINE void store_expanded(const ExpandDim& p, Y* y, int64_t count, Value&& value) {
  const hn::ScalableTag<C> d;
  const auto factor = hn::Set(d, static_cast<C>(p.factor));
  for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto v = hn::Mul(factor, value(d, load));
    store(p.y.add ? hn::Add(load(y), v) : v, y);
  });
}

// y in runs of `length` elements, each run one element of x repeated (inner = 1), or a row of x.
template <class X, class Y>
void expand_long_runs(const ExpandDim& p, int64_t length, const X* x, Y* y, int64_t begin, int64_t end) {
  using C = AccumT<X>;
  const int64_t n = p.view.n, inner = p.view.inner;
  while (begin < end) {
    const int64_t run = begin / length, first = begin % length, count = std::min(length - first, end - begin);
    if (inner == 1) {
      store_expanded<C>(p, y + begin, count, [&](auto d, auto) HWY_ATTR { return hn::Set(d, static_cast<C>(x[run])); });
    } else {
      const X* from = x + run / n * inner + first;
      store_expanded<C>(p, y + begin, count, [&](auto, auto load) HWY_ATTR { return load(from); });
    }
    begin += count;
  }
}

// The same for runs that are too short for vectors: a buffer collects them. No division per run, it would take longer.
template <class X, class Y>
void expand_short_runs(const ExpandDim& p, int64_t length, const X* x, Y* y, int64_t begin, int64_t end) {
  using C = AccumT<X>;
  const int64_t inner = p.view.inner, step = inner == 1 ? 0 : 1, times = inner == 1 ? 1 : p.view.n;
  int64_t at = begin % length, time = begin / length % times;
  const X* row = x + begin / length / times * inner;
  HWY_ALIGN C buffer[512];
  while (begin < end) {
    const int64_t count = std::min<int64_t>(std::size(buffer), end - begin);
    for (int64_t i = 0; i < count; ++i) {
      buffer[i] = static_cast<C>(row[at * step]);
      if (++at < length) continue;
      at = 0;
      if (++time < times) continue;
      time = 0;
      row += inner;
    }
    store_expanded<C>(p, y + begin, count, [&](auto, auto load) HWY_ATTR { return load(buffer); });
    begin += count;
  }
}

void expand_range(const ExpandDim& p, int64_t begin, int64_t end) {
  constexpr int64_t kShort = 32;
  const int64_t length = p.view.inner == 1 ? p.view.n : p.view.inner;
  visit_both(p.x.dtype, p.y.ref.dtype, [&](auto from, auto to) {
    const auto* x = p.x.as<decltype(from)>();
    auto* y = p.y.ref.as<decltype(to)>();
    length < kShort ? expand_short_runs(p, length, x, y, begin, end) : expand_long_runs(p, length, x, y, begin, end);
  });
}

// acc[i] = sum over the rows of x[j * stride + i], four rows at a time. Every column is summed in the same order.
template <class X, class C>
void add_rows(const X* x, int64_t stride, int64_t rows, int64_t width, C* acc) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill_n(acc, width, C(0));
  for (; rows >= 4; rows -= 4, x += 4 * stride) {
    const X *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
    int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const auto sum = hn::Add(hn::Add(load_from(d, x + i), load_from(d, x1 + i)),
                               hn::Add(load_from(d, x2 + i), load_from(d, x3 + i)));
      hn::StoreU(hn::Add(hn::LoadU(d, acc + i), sum), d, acc + i);
    }
    // Not a vector of fewer elements, which is slow to load in bf16.
    for (; i < width; ++i) {
      acc[i] += (static_cast<C>(x[i]) + static_cast<C>(x1[i])) + (static_cast<C>(x2[i]) + static_cast<C>(x3[i]));
    }
  }
  for (; rows > 0; --rows, x += stride) {
    int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, acc + i), load_from(d, x + i)), d, acc + i);
    }
    for (; i < width; ++i) acc[i] += static_cast<C>(x[i]);
  }
}

// acc[i] = sum over the rows of x[j * inner + i], for rows of inner elements that are shorter than kNarrow.
template <class X, class C>
void add_narrow_rows(const X* x, int64_t inner, int64_t rows, int64_t fold, C* acc) {
  if (rows < fold) {
    for (int64_t i = 0; i < inner; ++i) {
      acc[i] = 0;
      for (int64_t j = 0; j < rows; ++j) acc[i] += static_cast<C>(x[j * inner + i]);
    }
    return;
  }
  const int64_t width = fold * inner, folded = rows / fold;
  add_rows(x, width, folded, width, acc);
  const X* rest = x + folded * width;
  for (int64_t i = 0; i < (rows - folded * fold) * inner; ++i) acc[i] += static_cast<C>(rest[i]);
  for (int64_t half = width / 2; half >= inner; half /= 2) {
    for (int64_t i = 0; i < half; ++i) acc[i] += acc[half + i];
  }
}

// The sum of n adjacent elements.
template <class X, class C = AccumT<X>>
C sum_elements(const X* x, int64_t n) {
  const hn::ScalableTag<C> d;
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return sum_of(d, n, [&](auto load) HWY_ATTR { return load(x); });
  C sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<C>(x[i]);
  return sum;
}

// y[i] = acc[i] / divisor, or +=
template <class Y, class C>
void store_sums(const SumDim& p, const C* acc, int64_t count, Y* y) {
  const hn::ScalableTag<C> d;
  const auto divisor = hn::Set(d, static_cast<C>(p.divisor));
  for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto sum = hn::Div(load(acc), divisor);
    store(p.y.add ? hn::Add(load(y), sum) : sum, y);
  });
}

// y (outer, blocks.count, inner): the sums of the blocks, [begin, end) of their tiles.
template <class X, class Y>
void sum_tiles(const SumDim& p, const SumBlocks& blocks, const X* x, Y* y, int64_t begin, int64_t end) {
  using C = AccumT<X>;
  const int64_t n = p.view.n, inner = p.view.inner;
  int64_t tile = begin % blocks.tiles, block = begin / blocks.tiles % blocks.count,
          o = begin / blocks.tiles / blocks.count;
  HWY_ALIGN C acc[SumBlocks::kMostWidth];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = block * blocks.rows, rows = std::min(blocks.rows, n - first);
    const int64_t column = tile * SumBlocks::kTile, width = std::min(SumBlocks::kTile, inner - column);
    const X* from = x + (o * n + first) * inner + column;
    Y* to = y + (o * blocks.count + block) * inner + column;
    if (inner == 1) {
      const C sum = sum_elements(from, rows) / static_cast<C>(p.divisor);
      *to = static_cast<Y>(p.y.add ? static_cast<C>(*to) + sum : sum);
    } else {
      inner < SumBlocks::kNarrow ? add_narrow_rows(from, inner, rows, blocks.fold, acc)
                                 : add_rows(from, inner, rows, width, acc);
      store_sums(p, acc, width, to);
    }
    if (++tile < blocks.tiles) continue;
    tile = 0;
    if (++block < blocks.count) continue;
    block = 0;
    ++o;
  }
}

void sum_range(const SumDim& p, const SumBlocks& blocks, int64_t begin, int64_t end) {
  visit_both(p.x.dtype, p.y.ref.dtype, [&](auto from, auto to) {
    sum_tiles(p, blocks, p.x.as<decltype(from)>(), p.y.ref.as<decltype(to)>(), begin, end);
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(expand_range);
HWY_EXPORT(sum_range);

void expand_dim(Context&, const ExpandDim& p) {
  if (!p.y) return;
  parallel_for(p.view.outer * p.view.n * p.view.inner, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(expand_range)(p, begin, end);
  });
}

void sum_dim(Context& context, const SumDim& p) {
  const DimView& view = p.view;
  if (!p.y || view.outer * view.inner == 0) return;
  const SumBlocks blocks(view.n, view.inner);
  const int64_t sums = view.outer * blocks.count * view.inner, tiles = view.outer * blocks.count * blocks.tiles;
  const auto sum_blocks = [&](const SumDim& q) {
    const int64_t tile = std::min(blocks.rows, view.n) * std::min(SumBlocks::kTile, view.inner);
    parallel_for(tiles, ceil_divide(kElementwiseGrain, std::max<int64_t>(1, tile)), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(sum_range)(q, blocks, begin, end);
    });
  };
  if (blocks.count == 1) return sum_blocks(p);
  const DType dtype = accumulation_dtype(p.x.dtype);
  const Scratch<char> memory(context, sums * size_bytes(dtype));
  const TensorRef partial{.data = memory.data(), .shape = {sums}, .dtype = dtype};
  sum_blocks({.y = {partial}, .x = p.x, .view = view});
  sum_dim(context, {.y = p.y,
                    .x = partial,
                    .view = {.outer = view.outer, .n = blocks.count, .inner = view.inner},
                    .divisor = p.divisor});
}

}  // namespace heed::cpu
#endif
