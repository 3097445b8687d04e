// Forward: threads process rows. Backward of the table: threads process columns, and each visits all positions in
// order, so a table row that many positions use is summed without atomics and without sorting.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/embedding_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "autograd/core/token_range.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/embedding.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// sum[i] += x[i]
template <class T>
HWY_INLINE void add_to(AccumT<T>* sum, const T* x, int64_t count) {
  const hn::ScalableTag<AccumT<T>> d;
  for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Add(load(sum), load(x)), sum); });
}

void add_token_columns(const EmbeddingBackward& p, int64_t begin, int64_t end) {
  visit_floating(p.dy.dtype, [&](auto zero) HWY_ATTR {
    using T = decltype(zero);
    const int64_t columns = p.dy.shape.columns(), positions = p.tokens.shape.numel();
    const int32_t* tokens = p.tokens.as<int32_t>();
    auto* dtable = p.dtable.ref.as<AccumT<T>>() + begin;
    const T* dy = p.dy.as<T>() + begin;
    for (int64_t i = 0; i < positions; ++i) add_to(dtable + tokens[i] * columns, dy + i * columns, end - begin);
  });
}

void add_positions_rows(const AddPositionsForward& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) HWY_ATTR {
    using T = decltype(zero);
    const hn::ScalableTag<AccumT<T>> d;
    const int64_t times = p.x.shape[1], columns = p.x.shape[2];
    for (int64_t row = begin; row < end; ++row) {
      const T* x = p.x.as<T>() + row * columns;
      const T* position = p.positions.as<T>() + row % times * columns;
      T* y = p.y.as<T>() + row * columns;
      for_each_vector(d, columns,
                      [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Add(load(x), load(position)), y); });
    }
  });
}

void sum_batches(const AddPositionsBackward& p, int64_t begin, int64_t end) {
  visit_floating(p.dy.dtype, [&](auto zero) HWY_ATTR {
    using T = decltype(zero);
    const int64_t batches = p.dy.shape[0], times = p.dy.shape[1], columns = p.dy.shape[2];
    for (int64_t t = begin; t < end; ++t) {
      auto* sum = p.dpositions.ref.as<AccumT<T>>() + t * columns;
      if (!p.dpositions.add) std::fill_n(sum, columns, AccumT<T>(0));
      if (t >= times) continue;
      for (int64_t b = 0; b < batches; ++b) add_to(sum, p.dy.as<T>() + (b * times + t) * columns, columns);
    }
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(add_token_columns);
HWY_EXPORT(add_positions_rows);
HWY_EXPORT(sum_batches);

// Grain of parallel_for: the number of items of `size` elements that make waking a thread worthwhile.
int64_t grain(int64_t size) { return ceil_divide(kElementwiseGrain, std::max<int64_t>(size, 1)); }

void zero(const TensorRef& tensor) {
  const auto element_bytes = static_cast<size_t>(size_bytes(tensor.dtype));
  parallel_for(tensor.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(tensor.data) + static_cast<size_t>(begin) * element_bytes, 0,
                static_cast<size_t>(end - begin) * element_bytes);
  });
}

}  // namespace

void embedding_forward(Context&, const EmbeddingForward& p) {
  require_tokens(p.tokens, p.token_range());
  const auto row_bytes = static_cast<size_t>(p.table.shape[1] * size_bytes(p.table.dtype));
  const int32_t* tokens = p.tokens.as<int32_t>();
  parallel_for(p.tokens.shape.numel(), grain(p.table.shape[1]), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(static_cast<char*>(p.y.data) + static_cast<size_t>(i) * row_bytes,
                  static_cast<const char*>(p.table.data) + static_cast<size_t>(tokens[i]) * row_bytes, row_bytes);
    }
  });
}

void embedding_backward(Context&, const EmbeddingBackward& p) {
  if (!p.dtable) return;
  if (!p.dtable.add) zero(p.dtable.ref);
  constexpr int64_t kBlock = 16;  // columns; a cache line of f32, which avoids false sharing
  const int64_t columns = p.dy.shape.columns();
  parallel_for(ceil_divide(columns, kBlock), grain(kBlock * p.tokens.shape.numel()), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_token_columns)(p, begin * kBlock, std::min(end * kBlock, columns));
  });
}

void add_positions_forward(Context&, const AddPositionsForward& p) {
  parallel_for(p.x.shape.rows(), grain(p.x.shape[2]), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_positions_rows)(p, begin, end);
  });
}

void add_positions_backward(Context&, const AddPositionsBackward& p) {
  if (!p.dpositions) return;
  parallel_for(p.dpositions.ref.shape[0], grain(p.dy.shape[0] * p.dy.shape[2]), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_batches)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
