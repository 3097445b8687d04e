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

// Which attention probabilities of up to kRows queries and kKeys keys are kept: the 16-bit halves of their random
// words.
template <int64_t kRows, int64_t kKeys>
class DropoutTile {
 public:
  explicit DropoutTile(const AttentionProblem& p)
      : p_(p), threshold_(dropout_threshold(p.dropout)), random_(p.random) {}
  bool on() const { return threshold_ > 0; }

  // Generates the halves of a query and of keys [key, key + count) of the sequence as row `row`. All rows begin at the
  // same key.
  HWY_INLINE void draw(int64_t row, int64_t batch, int64_t head, int64_t query, int64_t key, int64_t count) {
    skip_ = key % 8;
    const uint64_t first = first_half(p_, batch, head, query) + static_cast<uint64_t>(key - skip_);
    random_.fill(first / 8, ceil_divide(skip_ + count, 8), reinterpret_cast<uint32_t*>(halves_[row]));
  }
  // v (probabilities of keys key + i … of row `row`, or their gradients) with the dropped ones set to 0.
  template <class D>
  HWY_INLINE Vec<D> keep(D d, Vec<D> v, int64_t row, int64_t i) const {
    return hn::IfThenElseZero(at_least(d, halves_[row] + skip_ + i, threshold_), v);
  }

 private:
  const AttentionProblem& p_;
  uint32_t threshold_;
  RandomVectors random_;
  int64_t skip_ = 0;
  HWY_ALIGN uint16_t halves_[kRows][padded<uint16_t>(kKeys + 8)];
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
