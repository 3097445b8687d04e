// The operands of the GEMMs in attention: elements of the accumulation dtype (Widened), or pairs of bf16 for
// AVX512_BF16 (Bf16Pairs), whose instructions compute twice as many products. A sum over the columns of both operands
// (q k^T) takes pairs of adjacent columns, a sum over the rows of the right operand (P v) pairs of adjacent rows.
// Included once per SIMD target, like simd.hpp.
#if defined(HEED_AUTOGRAD_OPS_ATTENTION_OPERANDS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_OPS_ATTENTION_OPERANDS_HPP
#undef HEED_AUTOGRAD_OPS_ATTENTION_OPERANDS_HPP
#else
#define HEED_AUTOGRAD_OPS_ATTENTION_OPERANDS_HPP
#endif

#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/ops/attention/cpu/tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class S>
struct Widened {
  using Storage = S;
  using Element = AccumT<S>;
  static constexpr int64_t kSize = 1;  // elements of Storage in an Element

  // The rows of `from` as the left operand, or as the right operand of a sum over its rows. Copied to `to` if needed.
  static Rows<const Element> left_rows(const S* from, int64_t row_stride, int64_t rows, int64_t columns, Element* to) {
    return whole_rows(from, row_stride, rows, columns, to);
  }
  static Rows<const Element> right_rows(const S* from, int64_t row_stride, int64_t rows, int64_t columns, Element* to) {
    return whole_rows(from, row_stride, rows, columns, to);
  }
  // Like right_rows(), but always copies.
  static void pack_right_rows(const S* from, int64_t row_stride, int64_t rows, int64_t columns, Element* to) {
    pack_rows(from, row_stride, rows, columns, Element(1), to);
  }
  // Packs the right operand of a sum over its columns. Returns the factor by which the caller must multiply the sums.
  static Element pack_right_columns(const S* from, int64_t row_stride, int64_t rows, int64_t columns, Element scale,
                                    Element* to) {
    pack_panels(from, row_stride, rows, columns, scale, to);
    return Element(1);
  }
};

#if HWY_TARGET <= HWY_AVX3
struct Bf16Pairs {
  using Storage = Bf16;
  using Element = uint32_t;
  static constexpr int64_t kSize = 2;

  static Rows<const Element> left_rows(const Bf16* from, int64_t row_stride, int64_t rows, int64_t columns,
                                       Element* to) {
    return whole_rows(pairs(from), row_stride / 2, rows, columns / 2, to);
  }
  static Rows<const Element> right_rows(const Bf16* from, int64_t row_stride, int64_t rows, int64_t columns,
                                        Element* to) {
    pack_right_rows(from, row_stride, rows, columns, to);
    return {to, padded<Element>(columns)};
  }
  // to[i][c] = the pair of from[2 i][c] and from[2 i + 1][c]; pads the columns with zeros to whole cache lines.
  static void pack_right_rows(const Bf16* from, int64_t row_stride, int64_t rows, int64_t columns, Element* to) {
    const hn::ScalableTag<Element> d;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t r = 0; r < rows; r += 2) {
      const Bf16* row = from + r * row_stride;
      prefetch_row(row, row_stride, columns, rows - r);
      prefetch_row(row + row_stride, row_stride, columns, rows - r - 1);
      for (int64_t c = 0; c < columns; c += lanes, to += lanes) {
        const auto low = load_bits(row + c, columns - c);
        const auto high = r + 1 < rows ? load_bits(row + row_stride + c, columns - c) : hn::Zero(d16);
        hn::Store(pair_of(d, low, high), d, to);
      }
    }
  }
  static float pack_right_columns(const Bf16* from, int64_t row_stride, int64_t rows, int64_t columns, float scale,
                                  Element* to) {
    pack_panels(pairs(from), row_stride / 2, rows, columns / 2, Element(1), to);
    return scale;
  }

 private:
  static const Element* pairs(const Bf16* from) { return reinterpret_cast<const Element*>(from); }

  // Loads a whole vector, or its first n elements and zeros.
  static HWY_INLINE hn::Vec<hn::Rebind<uint16_t, hn::ScalableTag<Element>>> load_bits(const Bf16* from, int64_t n) {
    const hn::Rebind<uint16_t, hn::ScalableTag<Element>> d;
    if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, &from->bits);
    HWY_ALIGN uint16_t buffer[hn::MaxLanes(d)] = {};
    std::memcpy(buffer, from, static_cast<size_t>(n) * sizeof(Bf16));
    return hn::Load(d, buffer);
  }
};

// Whether the CPU has AVX512_BF16 and the pairs of adjacent columns of these operands are aligned to 32 bits.
inline bool suits_bf16_pairs(int64_t head_size, std::initializer_list<ConstHeads> operands) {
  return has_bf16_dot() && head_size % 2 == 0 && std::ranges::all_of(operands, [](const ConstHeads& x) {
           return reinterpret_cast<uintptr_t>(x.data) % 4 == 0 &&
                  (x.batch_stride | x.row_stride | x.head_stride) % 2 == 0;
         });
}
#endif

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
