// Packs the transpose of a matrix into panels that a micro-kernel reads sequentially.
// Included once per instruction set, like simd.hpp.
#if defined(HEED_AUTOGRAD_CPU_PANELS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_PANELS_HPP
#undef HEED_AUTOGRAD_CPU_PANELS_HPP
#else
#define HEED_AUTOGRAD_CPU_PANELS_HPP
#endif

#include "autograd/cpu/line.hpp"
#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// Prefetches the row that the copy reaches 16 rows later: rows of one attention head are too far apart for the hardware
// prefetcher. Saves 2 to 5 % of attention.
template <class S>
HWY_INLINE void prefetch_row(const S* row, int64_t row_stride, int64_t columns, int64_t rows_left) {
  constexpr int64_t kAhead = 16;
  if (rows_left <= kAhead) return;
  for (int64_t c = 0; c < columns; c += kLine<S>) hwy::Prefetch(row + kAhead * row_stride + c);
}

// NR, the width of a panel: two vectors. Element (r, c) of the source matrix is stored in panel r / NR at (c, r % NR),
// so that a micro-kernel reads a panel sequentially.
template <class T>
HWY_INLINE int64_t panel_width() {
  return 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

// to = scale * transpose of `from`, for a tile of kBlock x kBlock elements; kBlock elements of T have 16 bytes. The
// strides are in elements.
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

// Packs scale * from, (rows, columns), into panels; pads the rows with zeros to a multiple of NR.
template <class S, class T = AccumT<S>>
HWY_INLINE void pack_panels(const S* from, int64_t row_stride, int64_t rows, int64_t columns, T scale,
                            T* HWY_RESTRICT to) {
  const int64_t width = panel_width<T>();
  for (int64_t r = 0; r < round_up(rows, width); r += kBlock<T>) {
    T* out = to + r / width * width * columns + r % width;
    const S* in = from + r * row_stride;
    for (int64_t i = 0; i < kBlock<T>; ++i) prefetch_row(in + i * row_stride, row_stride, columns, rows - r - i);
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

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
