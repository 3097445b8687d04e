// Threads process whole rows of qkv, which are independent. The gradients of the weights are sums over rows and heads:
// chunks of rows, whose number depends on the shape only, are summed separately and the partial sums are added in
// order, so the bits do not depend on the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/qk_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/cpu/column_sum.hpp"
#include "autograd/cpu/norm_row.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/qk_norm.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// The dimensions of a packed row: query heads, key heads, value heads.
struct PackedRow {
  explicit PackedRow(const ConstTensorRef& qkv, const QkNormOptions& options)
      : columns(qkv.shape.columns()),
        queries(options.num_heads),
        keys(options.num_kv_heads),
        size(columns / (queries + 2 * keys)) {}

  int64_t columns, queries, keys, size;
};

template <class T>
void normalize_row_of_heads(const QkNormForward& p, int64_t row) {
  using C = AccumT<T>;
  const PackedRow packed(p.qkv, p.options);
  const T* x = p.qkv.as<T>() + row * packed.columns;
  T* y = p.y.as<T>() + row * packed.columns;
  for (int64_t head = 0; head < packed.queries + packed.keys; ++head) {
    const bool is_query = head < packed.queries;
    C* rstd = is_query ? p.q_rstd.as<C>() + row * packed.queries + head
                       : p.k_rstd.as<C>() + row * packed.keys + head - packed.queries;
    normalize_row<false, T>({.y = y + head * packed.size,
                             .mean = nullptr,
                             .rstd = rstd,
                             .x = x + head * packed.size,
                             .weight = (is_query ? p.q_weight : p.k_weight).as<C>(),
                             .bias = nullptr,
                             .eps = static_cast<C>(p.options.eps),
                             .columns = packed.size});
  }
  const int64_t values = (packed.queries + packed.keys) * packed.size;
  std::copy(x + values, x + packed.columns, y + values);
}

template <class T>
void differentiate_row_of_heads(const QkNormBackward& p, int64_t row, AccumT<T>* dq_weight, AccumT<T>* dk_weight) {
  using C = AccumT<T>;
  const PackedRow packed(p.qkv, p.options);
  const int64_t begin = row * packed.columns, values = (packed.queries + packed.keys) * packed.size;
  const T *x = p.qkv.as<T>() + begin, *dy = p.dy.as<T>() + begin;
  T* dx = p.dqkv ? p.dqkv.ref.as<T>() + begin : nullptr;
  for (int64_t head = 0; head < packed.queries + packed.keys; ++head) {
    const bool is_query = head < packed.queries;
    const C rstd = is_query ? p.q_rstd.as<C>()[row * packed.queries + head]
                            : p.k_rstd.as<C>()[row * packed.keys + head - packed.queries];
    differentiate_row<false, T>({.dx = dx == nullptr ? nullptr : dx + head * packed.size,
                                 .add = p.dqkv.add,
                                 .dweight = is_query ? dq_weight : dk_weight,
                                 .dbias = nullptr,
                                 .dy = dy + head * packed.size,
                                 .x = x + head * packed.size,
                                 .weight = (is_query ? p.q_weight : p.k_weight).as<C>(),
                                 .mean = 0,
                                 .rstd = rstd,
                                 .columns = packed.size});
  }
  if (dx == nullptr) return;
  dx += values;
  dy += values;
  for_each_vector(hn::ScalableTag<C>(), packed.keys * packed.size, [&](int64_t, auto load, auto store) HWY_ATTR {
    store(p.dqkv.add ? hn::Add(load(dx), load(dy)) : load(dy), dx);
  });
}

void normalize(const QkNormForward& p, int64_t begin, int64_t end) {
  visit_floating(p.qkv.dtype, [&](auto zero) {
    for (int64_t row = begin; row < end; ++row) normalize_row_of_heads<decltype(zero)>(p, row);
  });
}

// dq_weight, dk_weight: partial sums in the dtype of the weights, or nullptr.
void differentiate(const QkNormBackward& p, int64_t begin, int64_t end, void* dq_weight, void* dk_weight) {
  visit_floating(p.qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = begin; row < end; ++row) {
      differentiate_row_of_heads<T>(p, row, static_cast<AccumT<T>*>(dq_weight), static_cast<AccumT<T>*>(dk_weight));
    }
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(normalize);
HWY_EXPORT(differentiate);

void qk_norm_forward(Context&, const QkNormForward& p) {
  parallel_for(p.qkv.shape.rows(), ceil_divide(kElementwiseGrain / 2, p.qkv.shape.columns()),
               [&](int64_t begin, int64_t end) {
                 HWY_DYNAMIC_DISPATCH(normalize)
                 (p, begin, end);
               });
}

void qk_norm_backward(Context& context, const QkNormBackward& p) {
  const int64_t size = p.qkv.shape.columns() / (p.options.num_heads + 2 * p.options.num_kv_heads);
  visit_accumulation(accumulation_dtype(p.qkv.dtype), [&](auto zero) {
    ColumnSums<decltype(zero)> sums(context, p.qkv.shape.rows(), size, 2);
    parallel_tasks(sums.chunks(), sums.chunks(), [&](int64_t chunk, int64_t) {
      HWY_DYNAMIC_DISPATCH(differentiate)
      (p, sums.first_row(chunk), sums.first_row(chunk + 1), p.dq_weight ? sums.partial(chunk, 0) : nullptr,
       p.dk_weight ? sums.partial(chunk, 1) : nullptr);
    });
    if (p.dq_weight) sums.finish(0, p.dq_weight);
    if (p.dk_weight) sums.finish(1, p.dk_weight);
  });
}

}  // namespace heed::cpu
#endif
