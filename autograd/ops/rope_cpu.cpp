// One pass over memory; threads process whole rows. The row of the table stays in L1 for all heads of a row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/rope_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/rope.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// y = x, or += if add, for columns that are not rotated.
template <class T>
void pass_through(const T* x, T* y, int64_t columns, bool add) {
  if (!add && x == y) return;
  const hn::ScalableTag<AccumT<T>> d;
  for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
    store(add ? hn::Add(load(y), load(x)) : load(x), y);
  });
}

// Rotates x[0, half) and x[half, 2 half). sign: -1 to rotate back.
template <class T>
void rotate(const T* x, T* y, const AccumT<T>* cosines, int64_t half, AccumT<T> sign, bool add) {
  const hn::ScalableTag<AccumT<T>> d;
  const auto vsign = hn::Set(d, sign);
  const AccumT<T>* sines = cosines + half;
  for_each_vector(d, half, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto cos = load(cosines), sin = hn::Mul(load(sines), vsign);
    const auto first = load(x), second = load(x + half);
    const auto y1 = hn::NegMulAdd(second, sin, hn::Mul(first, cos));
    const auto y2 = hn::MulAdd(first, sin, hn::Mul(second, cos));
    store(add ? hn::Add(load(y), y1) : y1, y);
    store(add ? hn::Add(load(y + half), y2) : y2, y + half);
  });
}

void rotate_rows(const Rope& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t columns = p.x.shape.columns(), size = p.head_size(), turned = p.table.shape.columns();
    const AccumT<T> sign = p.inverse ? -1 : 1;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = p.options.first_position + row % p.x.shape[1];
      const AccumT<T>* angles = p.table.as<AccumT<T>>() + position * turned;
      const T* x = p.x.as<T>() + row * columns;
      T* y = p.y.ref.as<T>() + row * columns;
      for (int64_t head = 0; head < p.options.rotated_heads; ++head) {
        rotate(x + head * size, y + head * size, angles, turned / 2, sign, p.y.add);
        pass_through(x + head * size + turned, y + head * size + turned, size - turned, p.y.add);
      }
      const int64_t rotated = p.options.rotated_heads * size;
      pass_through(x + rotated, y + rotated, columns - rotated, p.y.add);
    }
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(rotate_rows);

void apply_rope(Context&, const Rope& p) {
  if (!p.y || p.x.shape.numel() == 0) return;
  parallel_for(p.x.shape.rows(), ceil_divide(kElementwiseGrain, p.x.shape.columns()), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rotate_rows)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
