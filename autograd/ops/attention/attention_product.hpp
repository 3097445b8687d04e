// Small matrix products held in registers.
// Read once per instruction set, as simd.hpp is.
#if defined(HEED_AUTOGRAD_OPS_ATTENTION_PRODUCT_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_OPS_ATTENTION_PRODUCT_HPP
#undef HEED_AUTOGRAD_OPS_ATTENTION_PRODUCT_HPP
#else
#define HEED_AUTOGRAD_OPS_ATTENTION_PRODUCT_HPP
#endif

#include "autograd/cpu/block.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/attention/attention_tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// kStrip rows of scores: out[r][n] = sum over c of rows[r][c] * panels[n][c] for n < count, up to a whole vector.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void strip_scores(D d, const T* rows, const T* panels, int64_t columns, int64_t count, T* HWY_RESTRICT out,
                             int64_t out_stride) {
  for_each_block(d, count, [&](int64_t n, auto block) HWY_ATTR {
    block.add(d, {rows, padded<T>(columns), 1}, panels + n * columns, panel_width<T>(), 0, columns);
    block.store(d, out + n, out_stride);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
