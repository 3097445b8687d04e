// Packing of attention tiles: copies strided rows of a head into aligned memory and back.
// Included once per SIMD target, like simd.hpp.
#if defined(HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP
#undef HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP
#else
#define HEED_AUTOGRAD_OPS_ATTENTION_TILE_HPP
#endif

#include <algorithm>
#include <type_traits>

#include "autograd/cpu/gemm/micro_kernel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/attention/cpu/plan.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// to[r][c] = scale * from[r][c], columns padded with zeros to whole cache lines. `from` has the storage dtype S (may be
// bf16), `to` has the accumulation dtype T.
template <class S, class T = AccumT<S>>
HWY_INLINE void pack_rows(const S* from, int64_t row_stride, int64_t rows, int64_t columns, T scale,
                          T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r) {
    const S* row = from + r * row_stride;
    prefetch_row(row, row_stride, columns, rows - r);
    for (int64_t c = 0; c < padded<T>(columns); c += lanes, to += lanes) {
      const auto v = c + lanes <= columns ? load_from(d, row + c)
                     : c < columns        ? load_first(d, row + c, columns - c)
                                          : hn::Zero(d);
      hn::Store(scaled(d, v, scale), d, to);
    }
  }
}

// Rows of T that a micro-kernel reads and writes: whole vectors, and a multiple of kMR rows.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
};

// Whether a tile can be used in place, without packing: saves 5 % of attention over 64 positions. Its rows must also be
// close together in memory.
template <class S, class T = AccumT<S>>
HWY_INLINE bool usable_in_place(int64_t row_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kClose = 1 << 17;  // bytes
  return std::is_same_v<S, T> && columns % kLine<T> == 0 && rows % kMaxMR == 0 &&
         rows * row_stride * static_cast<int64_t>(sizeof(T)) <= kClose;
}

// The rows in place if possible, else a copy in `to`, padded with rows of zeros to a multiple of kMaxMR.
template <class S, class T = AccumT<S>>
HWY_INLINE Rows<const T> whole_rows(const S* from, int64_t row_stride, int64_t rows, int64_t columns,
                                    T* HWY_RESTRICT to) {
  if constexpr (std::is_same_v<S, T>) {
    if (usable_in_place<S>(row_stride, rows, columns)) return {from, row_stride};
  }
  const int64_t row_size = padded<T>(columns);
  pack_rows(from, row_stride, rows, columns, T(1), to);
  std::fill(to + rows * row_size, to + round_up(rows, kMaxMR) * row_size, T(0));
  return {to, row_size};
}

// to[r][c] = scale * from[r][c], or += if `add`; `from` is packed, `to` is strided.
template <class S, class T = AccumT<S>>
HWY_INLINE void unpack_rows(const T* HWY_RESTRICT from, int64_t rows, int64_t columns, T scale, bool add, S* to,
                            int64_t row_stride) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t r = 0; r < rows; ++r, from += padded<T>(columns), to += row_stride) {
    prefetch_row(to, row_stride, columns, rows - r);
    for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
      const auto v = hn::Mul(load(from), factor);
      store(add ? hn::Add(load(to), v) : v, to);
    });
  }
}

// The sum index of a masked GEMM, for the rows of one register tile: [all_begin, all_end) contributes to every row, the
// rest of [begin, end) only to some.
struct MaskedSteps {
  int64_t begin, all_begin, all_end, end;
};

// Adds A * B to a register tile; index i of the sum contributes to row r only if uses(r, i). An operand of pairs has
// two indices in a step.
template <class Tile, class D, class E, class Uses>
HWY_INLINE void add_masked(Tile& tile, D d, const OperandA<E>& a, const E* b, int64_t b_stride,
                           const MaskedSteps& indices, const Uses& uses) {
  constexpr int64_t kSize = std::is_same_v<E, uint32_t> ? 2 : 1;
  const int64_t begin = indices.begin / kSize, end = ceil_divide(indices.end, kSize);
  const int64_t all_begin = ceil_divide(indices.all_begin, kSize);
  const int64_t all_end = std::max(all_begin, indices.all_end / kSize);
  tile.add_where(d, a, b, b_stride, begin, std::min(all_begin, end), uses);
  tile.add(d, a, b, b_stride, all_begin, all_end);
  tile.add_where(d, a, b, b_stride, all_end, end, uses);
}

// v, the scores of keys `key` and following in units of log 2, plus the bias of ALiBi, slope * (key - query).
template <class D, class T = hn::TFromD<D>>
HWY_INLINE Vec<D> add_alibi(D d, Vec<D> v, T slope, int64_t key, int64_t query) {
  return hn::MulAdd(hn::Iota(d, static_cast<T>(key - query)), hn::Set(d, slope), v);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
