// Random words are generated 1024 at a time in L1 and used at once. Threads process whole rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/dropout_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/random_words.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/dropout.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// Mask of the elements of a vector whose random words are above `limit`.
template <class D>
HWY_INLINE hn::Mask<D> above(D d, const uint32_t* words, uint32_t limit) {
  const hn::RebindToUnsigned<D> du;
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(uint32_t)) {
    return hn::RebindMask(d, hn::Gt(hn::LoadU(du, words), hn::Set(du, limit)));
  } else {
    const hn::Rebind<uint32_t, D> half;
    return hn::RebindMask(d, hn::Gt(hn::PromoteTo(du, hn::LoadU(half, words)), hn::Set(du, uint64_t{limit})));
  }
}

template <class T>
class Dropper {
 public:
  explicit Dropper(const Dropout& p)
      : p_(p),
        // word >= threshold iff word > threshold - 1, which fits in 32 bits for every threshold from 1 to 2^32.
        limit_(static_cast<uint32_t>(dropout_threshold(p.p) - 1)),
        scale_(p.p < 1 ? static_cast<C>(1 / (1 - p.p)) : C(0)) {}

  // Processes elements [begin, begin + count); the first uses random word `index`, a multiple of 4.
  void run(int64_t begin, int64_t count, int64_t index) {
    for (int64_t done = 0; done < count; done += kWords) {
      const int64_t part = std::min(kWords, count - done);
      random_words(p_.random, static_cast<uint64_t>((index + done) / 4), ceil_divide(part, 4), words_);
      apply(begin + done, part);
    }
  }

 private:
  using C = AccumT<T>;
  static constexpr int64_t kWords = 1024;

  void apply(int64_t begin, int64_t count) const {
    const hn::ScalableTag<C> d;
    const auto scale = hn::Set(d, scale_);
    const T* x = p_.x.as<T>() + begin;
    T* y = p_.y.as<T>() + begin;
    if (!p_.residual) {
      for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
        store(hn::IfThenElseZero(above(d, words_ + i, limit_), hn::Mul(load(x), scale)), y);
      });
      return;
    }
    const T* residual = p_.residual.as<T>() + begin;
    for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
      const auto r = load(residual);
      store(hn::IfThenElse(above(d, words_ + i, limit_), hn::MulAdd(load(x), scale, r), r), y);
    });
  }

  const Dropout& p_;
  const uint32_t limit_;
  const C scale_;
  // The last vector of a row may read past the words in use.
  HWY_ALIGN uint32_t words_[kWords + 64] = {};
};

void drop_rows(const Dropout& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) {
    Dropper<decltype(zero)> dropper(p);
    const int64_t columns = p.x.shape.columns(), padded = round_up(columns, 4);
    if (columns == padded) {  // word indices are contiguous across rows
      dropper.run(begin * columns, (end - begin) * columns, (p.first_row + begin) * columns);
      return;
    }
    for (int64_t row = begin; row < end; ++row) dropper.run(row * columns, columns, (p.first_row + row) * padded);
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(drop_rows);

void apply_dropout(Context&, const Dropout& p) {
  const int64_t columns = std::max<int64_t>(p.x.shape.columns(), 1);
  parallel_for(p.x.shape.rows(), ceil_divide(kElementwiseGrain, columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(drop_rows)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
