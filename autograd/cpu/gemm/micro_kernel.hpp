// What the micro-kernels of GEMM and attention are made of, in the words of BLIS: the register tile (MR x NR), and
// packing of an operand into panels that are read sequentially. Included once per instruction set, like simd.hpp.
#if defined(HEED_AUTOGRAD_CPU_MICRO_KERNEL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_MICRO_KERNEL_HPP
#undef HEED_AUTOGRAD_CPU_MICRO_KERNEL_HPP
#else
#define HEED_AUTOGRAD_CPU_MICRO_KERNEL_HPP
#endif

#include <utility>

#include "autograd/cpu/line.hpp"
#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// MR, the rows of the register tile: with two vectors per row, 16 accumulators of 32 vector registers, or 8 of 16.
constexpr int64_t kMR = kManyRegisters ? 8 : 4;

// The A operand: A[r, k] = data[r * row_stride + k * step_stride].
template <class T>
struct OperandA {
  const T* data;
  int64_t row_stride, step_stride;
};

// Register tile of C: kMR rows x kVectors vectors (NR = kVectors * lanes). Each element accumulates over
// ascending k, so its bits do not depend on how k is split over calls.
template <class D, int kVectors, class Rows = std::make_index_sequence<kMR>>
class RegisterTile;
template <class D, int kVectors, size_t... kRow>
class RegisterTile<D, kVectors, std::index_sequence<kRow...>> {
 public:
  using T = hn::TFromD<D>;

  HWY_INLINE explicit RegisterTile(D d) {
    ((sum0_[kRow] = hn::Zero(d)), ...);
    ((sum1_[kRow] = hn::Zero(d)), ...);
  }

  HWY_INLINE void load(D d, const T* from, int64_t row_stride) {
    ((sum0_[kRow] = hn::LoadU(d, from + kRow * row_stride)), ...);
    if constexpr (kVectors > 1) ((sum1_[kRow] = hn::LoadU(d, from + kRow * row_stride + hn::Lanes(d))), ...);
  }

  // Multiplies row r by factors[r].
  HWY_INLINE void scale(D d, const T* factors) {
    ((sum0_[kRow] = hn::Mul(sum0_[kRow], hn::Set(d, factors[kRow]))), ...);
    if constexpr (kVectors > 1) ((sum1_[kRow] = hn::Mul(sum1_[kRow], hn::Set(d, factors[kRow]))), ...);
  }

  // Prefetches the rows of a tile that will be loaded soon.
  HWY_INLINE void prefetch(const T* from, int64_t row_stride) const {
    for (size_t c = 0; c < kVectors * hn::Lanes(D()); c += kLine<T>) (hwy::Prefetch(from + kRow * row_stride + c), ...);
  }

  HWY_INLINE void store(D d, T* to, int64_t row_stride) const {
    (hn::StoreU(sum0_[kRow], d, to + kRow * row_stride), ...);
    if constexpr (kVectors > 1) (hn::StoreU(sum1_[kRow], d, to + kRow * row_stride + hn::Lanes(d)), ...);
  }

  // Accumulates A[r, k] * B[k, :] for k in [begin, end); row k of the B operand starts at b + k * b_stride.
  HWY_INLINE void add(D d, const OperandA<T>& a, const T* b, int64_t b_stride, int64_t begin, int64_t end) {
    const T* column = a.data + begin * a.step_stride;
    const T* row = b + begin * b_stride;
    for (int64_t k = begin; k < end; ++k, column += a.step_stride, row += b_stride) {
      const auto b0 = hn::LoadU(d, row), b1 = hn::LoadU(d, kVectors > 1 ? row + hn::Lanes(d) : row);
      (add_row(d, kRow, column[kRow * a.row_stride], b0, b1), ...);
    }
  }

  // As add(), with a mask: k contributes only to the rows r for which uses(r, k) is true.
  template <class Uses>
  HWY_INLINE void add_where(D d, const OperandA<T>& a, const T* b, int64_t b_stride, int64_t begin, int64_t end,
                            const Uses& uses) {
    for (int64_t k = begin; k < end; ++k) {
      const T* column = a.data + k * a.step_stride;
      const T* row = b + k * b_stride;
      const auto b0 = hn::LoadU(d, row), b1 = hn::LoadU(d, kVectors > 1 ? row + hn::Lanes(d) : row);
      ((uses(static_cast<int64_t>(kRow), k) ? add_row(d, kRow, column[kRow * a.row_stride], b0, b1) : void()), ...);
    }
  }

#if HWY_TARGET <= HWY_AVX3
  // The same for pairs of bf16 (simd.hpp): step k adds A[r, 2k] * B[2k, :] + A[r, 2k + 1] * B[2k + 1, :].
  HWY_INLINE void add(D d, const OperandA<uint32_t>& a, const uint32_t* b, int64_t b_stride, int64_t begin,
                      int64_t end) {
    const hn::RebindToUnsigned<D> du;
    const uint32_t* column = a.data + begin * a.step_stride;
    const uint32_t* row = b + begin * b_stride;
    for (int64_t k = begin; k < end; ++k, column += a.step_stride, row += b_stride) {
      const auto b0 = hn::LoadU(du, row), b1 = hn::LoadU(du, kVectors > 1 ? row + hn::Lanes(d) : row);
      (add_pairs(kRow, hn::Set(du, column[kRow * a.row_stride]), b0, b1), ...);
    }
  }

  // Calls uses(r, i) for both elements i of a pair. If an element is not used, both operands become 0, because 0 * NaN
  // is NaN.
  template <class Uses>
  HWY_INLINE void add_where(D d, const OperandA<uint32_t>& a, const uint32_t* b, int64_t b_stride, int64_t begin,
                            int64_t end, const Uses& uses) {
    const hn::RebindToUnsigned<D> du;
    for (int64_t k = begin; k < end; ++k) {
      const uint32_t* column = a.data + k * a.step_stride;
      const uint32_t* row = b + k * b_stride;
      const auto b0 = hn::LoadU(du, row), b1 = hn::LoadU(du, kVectors > 1 ? row + hn::Lanes(d) : row);
      const auto add_used = [&](size_t r) HWY_ATTR {
        const auto at = static_cast<int64_t>(r);
        const uint32_t used = (uses(at, 2 * k) ? 0xFFFFu : 0u) | (uses(at, 2 * k + 1) ? 0xFFFF0000u : 0u);
        if (used == 0) return;
        const auto mask = hn::Set(du, used);
        add_pairs(r, hn::Set(du, column[at * a.row_stride] & used), hn::And(b0, mask), hn::And(b1, mask));
      };
      (add_used(kRow), ...);
    }
  }
#endif

  // Replaces each vector of the tile by body(row, column, vector).
  template <class Body>
  HWY_INLINE void transform(D d, const Body& body) {
    ((sum0_[kRow] = body(static_cast<int64_t>(kRow), int64_t{0}, sum0_[kRow])), ...);
    if constexpr (kVectors > 1)
      ((sum1_[kRow] = body(static_cast<int64_t>(kRow), static_cast<int64_t>(hn::Lanes(d)), sum1_[kRow])), ...);
  }

  // Calls body(row, column, vector) for each vector of the tile.
  template <class Body>
  HWY_INLINE void each(D d, const Body& body) const {
    (body(static_cast<int64_t>(kRow), int64_t{0}, sum0_[kRow]), ...);
    if constexpr (kVectors > 1)
      (body(static_cast<int64_t>(kRow), static_cast<int64_t>(hn::Lanes(d)), sum1_[kRow]), ...);
  }

 private:
  HWY_INLINE void add_row(D d, size_t row, T a, Vec<D> b0, Vec<D> b1) {
    sum0_[row] = hn::MulAdd(hn::Set(d, a), b0, sum0_[row]);
    if constexpr (kVectors > 1) sum1_[row] = hn::MulAdd(hn::Set(d, a), b1, sum1_[row]);
  }

#if HWY_TARGET <= HWY_AVX3
  template <class Pairs>
  HWY_INLINE void add_pairs(size_t row, Pairs a, Pairs b0, Pairs b1) {
    sum0_[row] = add_pair_products(sum0_[row], a, b0);
    if constexpr (kVectors > 1) sum1_[row] = add_pair_products(sum1_[row], a, b1);
  }
#endif

  Vec<D> sum0_[sizeof...(kRow)], sum1_[sizeof...(kRow)];
};

// Calls body(column, tile) for zero-initialised register tiles that cover `columns`: two vectors wide, the last one
// possibly one vector wide.
template <class D, class Body>
HWY_INLINE void for_each_register_tile(D d, int64_t columns, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes < columns; c += 2 * lanes) body(c, RegisterTile<D, 2>(d));
  if (c < columns) body(c, RegisterTile<D, 1>(d));
}

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

// v * factor; pairs of bf16 (integers) stay unchanged.
template <class D>
HWY_INLINE Vec<D> scaled(D d, Vec<D> v, hn::TFromD<D> factor) {
  if constexpr (std::is_integral_v<hn::TFromD<D>>)
    return v;
  else
    return hn::Mul(v, hn::Set(d, factor));
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
template <class S, class T>
HWY_INLINE void transpose_block(const S* from, int64_t row_stride, T* to, int64_t to_stride, T scale) {
  const hn::FixedTag<T, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto row = [&](int64_t r) HWY_ATTR { return scaled(d, load_from(d, from + r * row_stride), scale); };
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
