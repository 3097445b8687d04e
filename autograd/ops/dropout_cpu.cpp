// Random words are generated 1024 at a time in L1 and used at once, two elements a word. Threads process whole rows.
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

template <class T>
class Dropper {
 public:
  explicit Dropper(const Dropout& p)
      : p_(p), threshold_(dropout_threshold(p.p)), scale_(static_cast<C>(dropout_scale(p.p))) {}

  // Processes elements [begin, begin + count); the first uses half `index` of the stream, a multiple of 8.
  void run(int64_t begin, int64_t count, int64_t index) {
    for (int64_t done = 0; done < count; done += kHalves) {
      const int64_t part = std::min(kHalves, count - done);
      random_words(p_.random, static_cast<uint64_t>((index + done) / 8), ceil_divide(part, 8),
                   reinterpret_cast<uint32_t*>(halves_));
      apply(begin + done, part);
    }
  }

 private:
  using C = AccumT<T>;
  static constexpr int64_t kHalves = 2048;

  void apply(int64_t begin, int64_t count) const {
    const hn::ScalableTag<C> d;
    const auto scale = hn::Set(d, scale_);
    const T* x = p_.x.as<T>() + begin;
    T* y = p_.y.as<T>() + begin;
    if (!p_.residual) {
      for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
        store(hn::IfThenElseZero(at_least(d, halves_ + i, threshold_), hn::Mul(load(x), scale)), y);
      });
      return;
    }
    const T* residual = p_.residual.as<T>() + begin;
    for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
      const auto r = load(residual);
      store(hn::IfThenElse(at_least(d, halves_ + i, threshold_), hn::MulAdd(load(x), scale, r), r), y);
    });
  }

  const Dropout& p_;
  const uint32_t threshold_;
  const C scale_;
  // The last vector of a row may read past the halves in use.
  HWY_ALIGN uint16_t halves_[kHalves + HWY_LANES(C)] = {};
};

void drop_rows(const Dropout& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) {
    Dropper<decltype(zero)> dropper(p);
    const int64_t columns = p.x.shape.columns(), padded = round_up(columns, 8);
    if (columns == padded) {  // halves are contiguous across rows
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
