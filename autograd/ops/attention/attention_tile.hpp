// Tiles of attention: copies of strided rows into aligned memory, and small matrix products held in registers.
// Read once per instruction set, as simd.hpp is.
#if defined(HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP
#undef HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP
#else
#define HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP
#endif

#include <cmath>
#include <utility>

#include "autograd/cpu/simd.hpp"
#include "autograd/ops/attention/attention_plan.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// ---- Copies
// ----------------------------------------------------------------------------------------------------------

// to[r][c] = scale * from[r][c], columns padded with zeros to whole cache lines. Stored, S may be bf16; packed it is
// the dtype of the computation.
template <class S, class T = ComputeOf<S>>
HWY_INLINE void pack_rows(const S* from, int64_t row_stride, int64_t rows, int64_t columns, T scale,
                          T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  for (int64_t r = 0; r < rows; ++r) {
    const S* row = from + r * row_stride;
    for (int64_t c = 0; c < padded<T>(columns); c += lanes, to += lanes) {
      const auto v = c + lanes <= columns ? load_from(d, row + c)
                     : c < columns        ? load_first(d, row + c, columns - c)
                                          : hn::Zero(d);
      hn::Store(hn::Mul(v, factor), d, to);
    }
  }
}

// to[r][c] = scale * from[r][c] or += where add; `from` is packed, `to` is strided.
template <class S, class T = ComputeOf<S>>
HWY_INLINE void unpack_rows(const T* HWY_RESTRICT from, int64_t rows, int64_t columns, T scale, bool add, S* to,
                            int64_t row_stride) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t r = 0; r < rows; ++r, from += padded<T>(columns), to += row_stride) {
    for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
      const auto v = hn::Mul(load(from), factor);
      store(add ? hn::Add(load(to), v) : v, to);
    });
  }
}

// A transposed matrix comes as panels of two vectors of rows: element (r, c) at panel r / 2 lanes, c, r % 2 lanes. A
// product reads it from begin to end.
template <class T>
HWY_INLINE int64_t panel_width() {
  return 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

// Transposes a block of kBlock rows and columns, as many as there are in 16 bytes; to_stride in elements.
#if HWY_TARGET == HWY_SCALAR
template <class T>
constexpr int64_t kBlock = 1;
template <class S, class T>
HWY_INLINE void transpose_block(const S* from, int64_t, T* to, int64_t, T scale) {
  *to = scale * static_cast<T>(*from);
}
#else
template <class T>
constexpr int64_t kBlock = 16 / sizeof(T);
template <class S>
HWY_INLINE void transpose_block(const S* from, int64_t row_stride, float* to, int64_t to_stride, float scale) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto row = [&](int64_t r) HWY_ATTR { return hn::Mul(load_from(d, from + r * row_stride), hn::Set(d, scale)); };
  const auto a = row(0), b = row(1), c = row(2), e = row(3);
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, ab_low, ce_low)), d, to);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, ce_low)), d, to + to_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, ab_high, ce_high)), d, to + 2 * to_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, ce_high)), d, to + 3 * to_stride);
}
HWY_INLINE void transpose_block(const double* from, int64_t row_stride, double* to, int64_t to_stride, double scale) {
  const hn::FixedTag<double, 2> d;
  const auto a = hn::Mul(hn::LoadU(d, from), hn::Set(d, scale));
  const auto b = hn::Mul(hn::LoadU(d, from + row_stride), hn::Set(d, scale));
  hn::Store(hn::InterleaveLower(d, a, b), d, to);
  hn::Store(hn::InterleaveUpper(d, a, b), d, to + to_stride);
}

#endif

// Panels of scale * from; rows padded with zeros to whole panels.
template <class S, class T = ComputeOf<S>>
HWY_INLINE void pack_panels(const S* from, int64_t row_stride, int64_t rows, int64_t columns, T scale,
                            T* HWY_RESTRICT to) {
  const int64_t width = panel_width<T>();
  for (int64_t r = 0; r < round_up(rows, width); r += kBlock<T>) {
    T* out = to + r / width * width * columns + r % width;
    const S* in = from + r * row_stride;
    int64_t c = 0;
    if (r + kBlock<T> <= rows) {
      for (; c + kBlock<T> <= columns; c += kBlock<T>)
        transpose_block(in + c, row_stride, out + c * width, width, scale);
    }
    for (; c < columns; ++c) {
      for (int64_t i = 0; i < kBlock<T>; ++i)
        out[c * width + i] = r + i < rows ? scale * static_cast<T>(in[i * row_stride + c]) : T(0);
    }
  }
}

// ---- Products
// --------------------------------------------------------------------------------------------------------

// Rows of a product that are computed at once: with two vectors each, 16 sums of 32 registers or 8 of 16.
constexpr int64_t kStrip = HWY_MAX_BYTES >= 64 ? 8 : 4;

// The left factor: row r, step k is data[r * row_stride + k * step_stride].
template <class T>
struct Left {
  const T* data;
  int64_t row_stride, step_stride;
};

// kStrip rows and kVectors vectors of a product, in registers. Each element is a sum over ascending steps, so its bits
// do not depend on how the steps are cut into calls.
template <class D, int kVectors, class Rows = std::make_index_sequence<kStrip>>
class Block;
template <class D, int kVectors, size_t... kRow>
class Block<D, kVectors, std::index_sequence<kRow...>> {
 public:
  using T = hn::TFromD<D>;

  HWY_INLINE explicit Block(D d) {
    ((sum0_[kRow] = hn::Zero(d)), ...);
    ((sum1_[kRow] = hn::Zero(d)), ...);
  }

  HWY_INLINE void load(D d, const T* from, int64_t row_stride) {
    ((sum0_[kRow] = hn::Load(d, from + kRow * row_stride)), ...);
    if constexpr (kVectors > 1) ((sum1_[kRow] = hn::Load(d, from + kRow * row_stride + hn::Lanes(d))), ...);
  }

  HWY_INLINE void store(D d, T* to, int64_t row_stride) const {
    (hn::Store(sum0_[kRow], d, to + kRow * row_stride), ...);
    if constexpr (kVectors > 1) (hn::Store(sum1_[kRow], d, to + kRow * row_stride + hn::Lanes(d)), ...);
  }

  // Adds steps [begin, end); the row of the right factor of step k is right + k * right_stride, aligned.
  HWY_INLINE void add(D d, const Left<T>& left, const T* right, int64_t right_stride, int64_t begin, int64_t end) {
    const T* a = left.data + begin * left.step_stride;
    const T* b = right + begin * right_stride;
    for (int64_t k = begin; k < end; ++k, a += left.step_stride, b += right_stride) {
      const auto b0 = hn::Load(d, b), b1 = hn::Load(d, kVectors > 1 ? b + hn::Lanes(d) : b);
      (add_row(d, kRow, a[kRow * left.row_stride], b0, b1), ...);
    }
  }

  // The same for those rows only that step k has a part in: uses(row, k).
  template <class Uses>
  HWY_INLINE void add_where(D d, const Left<T>& left, const T* right, int64_t right_stride, int64_t begin, int64_t end,
                            const Uses& uses) {
    for (int64_t k = begin; k < end; ++k) {
      const T* a = left.data + k * left.step_stride;
      const T* b = right + k * right_stride;
      const auto b0 = hn::Load(d, b), b1 = hn::Load(d, kVectors > 1 ? b + hn::Lanes(d) : b);
      ((uses(static_cast<int64_t>(kRow), k) ? add_row(d, kRow, a[kRow * left.row_stride], b0, b1) : void()), ...);
    }
  }

 private:
  HWY_INLINE void add_row(D d, size_t row, T a, Vec<D> b0, Vec<D> b1) {
    sum0_[row] = hn::MulAdd(hn::Set(d, a), b0, sum0_[row]);
    if constexpr (kVectors > 1) sum1_[row] = hn::MulAdd(hn::Set(d, a), b1, sum1_[row]);
  }

  Vec<D> sum0_[sizeof...(kRow)], sum1_[sizeof...(kRow)];
};

// Calls body(column, block) for blocks of two vectors, and of one at the end, that cover `columns`.
template <class D, class Body>
HWY_INLINE void for_each_block(D d, int64_t columns, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes < columns; c += 2 * lanes) body(c, Block<D, 2>(d));
  if (c < columns) body(c, Block<D, 1>(d));
}

// kStrip rows of scores: out[r][n] = sum over c of rows[r][c] * panels[n][c] for n < count, up to a whole vector.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void strip_scores(D d, const T* rows, const T* panels, int64_t columns, int64_t count, T* HWY_RESTRICT out,
                             int64_t out_stride) {
  for_each_block(d, count, [&](int64_t n, auto block) HWY_ATTR {
    block.add(d, {rows, padded<T>(columns), 1}, panels + n * columns, panel_width<T>(), 0, columns);
    block.store(d, out + n, out_stride);
  });
}

// ---- Softmax
// ---------------------------------------------------------------------------------------------------------

// The first n lanes of v, `other` in the rest; all of v where n >= Lanes.
template <class D>
HWY_INLINE Vec<D> first_lanes_or(D d, Vec<D> v, int64_t n, Vec<D> other) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  return n >= lanes ? v : hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n)), v, other);
}

// The larger one; b where a is NaN. For a running maximum b that must not become NaN: the NaN shows in the exponential.
template <class V>
HWY_INLINE V larger(V a, V b) {
  return hn::IfThenElse(hn::Gt(a, b), a, b);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE T largest_lane(D d, Vec<D> v) {
  constexpr size_t kLanes = HWY_LANES(T);
  if constexpr (kLanes > 1) v = larger(v, hn::Reverse(d, v));
  if constexpr (kLanes >= 16) v = larger(v, hn::Reverse8(d, v));
  if constexpr (kLanes >= 8) v = larger(v, hn::Reverse4(d, v));
  if constexpr (kLanes >= 4) v = larger(v, hn::Reverse2(d, v));
  return hn::GetLane(v);
}

// e^x for x <= 0 (and a little above, by rounding), relative error 2e-7 in f32; 0 below the smallest normal number. NaN
// gives NaN, -Inf gives 0. Half the work of Exp, which counts: it is needed for every weight.
template <class D, class V = Vec<D>>
HWY_INLINE V exp_of_negative(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return Exp(d, x);
  } else {
    // 2^n e^r with |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to an integer; with 127 more, the low bits of the sum are
    // the biased exponent of 2^n.
    const hn::RebindToUnsigned<D> du;
    const auto magic = hn::Set(d, 12583039.0f);
    const auto rounded = hn::MulAdd(x, hn::Set(d, 1.44269504088896f), magic);
    const auto n = hn::Sub(rounded, magic);
    const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, rounded)));
    // ln 2 in two parts, the first short enough that n times it is exact.
    const auto r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
    auto y = hn::Set(d, 1.38145402e-3f);
    y = hn::MulAdd(y, r, hn::Set(d, 8.36874511e-3f));
    y = hn::MulAdd(y, r, hn::Set(d, 4.16683908e-2f));
    y = hn::MulAdd(y, r, hn::Set(d, 1.66665204e-1f));
    y = hn::MulAdd(y, r, hn::Set(d, 4.99999934e-1f));
    y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
    y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
    const auto underflow = hn::Lt(x, hn::Set(d, -87.33654f));
    return hn::IfThenZeroElse(underflow, hn::Mul(y, power));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
