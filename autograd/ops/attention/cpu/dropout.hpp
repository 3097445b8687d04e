// Dropout of the attention probabilities. Included once per SIMD target, like simd.hpp.
#if defined(HEED_AUTOGRAD_OPS_ATTENTION_DROPOUT_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_OPS_ATTENTION_DROPOUT_HPP
#undef HEED_AUTOGRAD_OPS_ATTENTION_DROPOUT_HPP
#else
#define HEED_AUTOGRAD_OPS_ATTENTION_DROPOUT_HPP
#endif

#include "autograd/cpu/random_words.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/attention/cpu/plan.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// v where the random word is at least `threshold`, else 0.
template <class D, class V = Vec<D>>
HWY_INLINE V keep_where(D d, V v, const uint32_t* words, uint32_t threshold) {
  const hn::Rebind<uint32_t, D> d32;
  const auto w = hn::LoadU(d32, words);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(w, hn::Set(d32, threshold))), v);
  } else {
    const hn::RebindToSigned<D> d64;
    const auto wide = hn::BitCast(d64, hn::PromoteTo(hn::RebindToUnsigned<D>(), w));
    return hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(wide, hn::Set(d64, static_cast<int64_t>(threshold)))), v);
  }
}

// Random words of the attention probabilities of one query and a range of keys.
class DropoutRow {
 public:
  explicit DropoutRow(const AttentionProblem& p)
      : p_(p), threshold_(static_cast<uint32_t>(drop_below(p))), random_(p.random) {}
  bool on() const { return p_.dropout > 0; }

  // Generates the words of keys [key, key + count) of the sequence, at most kForwardKeys of them.
  HWY_INLINE void draw(int64_t batch, int64_t head, int64_t query, int64_t key, int64_t count) {
    skip_ = key % 4;
    const uint64_t first = first_word(p_, batch, head, query) + static_cast<uint64_t>(key - skip_);
    random_.fill(first / 4, ceil_divide(skip_ + count, 4), words_);
  }
  // v (probabilities of keys key + i …, or their gradients) with the dropped ones set to 0.
  template <class D>
  HWY_INLINE Vec<D> keep(D d, Vec<D> v, int64_t i) const {
    return keep_where(d, v, words_ + skip_ + i, threshold_);
  }

 private:
  const AttentionProblem& p_;
  uint32_t threshold_;
  RandomVectors random_;
  int64_t skip_ = 0;
  HWY_ALIGN uint32_t words_[kForwardKeys + 4 + HWY_LANES(uint32_t)];
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
