// C = A op(B) reads A in place and packs B into panels once, for all threads. A work item is a block of rows of C. Its
// loops, from the outside: a group of panels that fits in L2; kMR rows; a panel. The innermost one accumulates a
// register tile over the whole of k, so C is written once. C = A^T B: each thread computes a part of C. It packs a
// range of k of both operands at a time, and accumulates the ranges into C in ascending order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/gemm/pair_gemm.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/cpu/gemm/micro_kernel.hpp"
#include "autograd/cpu/gemm/pair_gemm.hpp"
#include "autograd/cpu/gemm/pair_gemm_plan.hpp"
#include "autograd/cpu/parallel.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3

using D = hn::ScalableTag<float>;
using Tile = RegisterTile<D, 2>;
static_assert(kMR == kPairRows && 2 * HWY_LANES(float) == kPairColumns);

inline const uint32_t* pairs(const Bf16* from) { return reinterpret_cast<const uint32_t*>(from); }

// Packs kWidth columns of `from` into a panel of pairs: to[i][c] holds rows 2 i and 2 i + 1 of column c. Pads with
// zeros from column `columns` on, and after the last row if their number is odd.
template <int64_t kWidth>
void pack_row_pairs(const Bf16* from, int64_t row_stride, int64_t rows, int64_t columns, uint32_t* to) {
  const hn::CappedTag<uint32_t, kWidth> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const auto load = [&](const Bf16* row, int64_t c) HWY_ATTR {
    if (c + kLanes <= columns) return hn::LoadU(d16, &row[c].bits);
    HWY_ALIGN uint16_t buffer[kLanes] = {};
    if (c < columns) std::memcpy(buffer, row + c, static_cast<size_t>(columns - c) * sizeof(Bf16));
    return hn::Load(d16, buffer);
  };
  for (int64_t r = 0; r < rows; r += 2, from += 2 * row_stride) {
    for (int64_t c = 0; c < kWidth; c += kLanes, to += kLanes) {
      const auto high = r + 1 < rows ? load(from + row_stride, c) : hn::Zero(d16);
      hn::Store(pair_of(d, load(from, c), high), d, to);
    }
  }
}

void pack_b(const Gemm<Bf16>& g, int64_t panel, uint32_t* to) {
  const int64_t column = panel * kPairColumns, columns = std::min(kPairColumns, g.n - column);
  if (g.transpose_b) {
    pack_panels(pairs(g.b + column * g.k), g.k / 2, columns, g.k / 2, uint32_t{1}, to);
  } else {
    pack_row_pairs<kPairColumns>(g.b + column, g.n, g.k, columns, to);
  }
}

// The micro-kernel, not inlined, like that of the blocked GEMM. Calls store(row, column, vector).
template <bool kPacked, class Store>
HWY_NOINLINE void multiply(const uint32_t* a, int64_t a_row_stride, const uint32_t* panel, int64_t count,
                           const Store& store) {
  const D d;
  Tile tile(d);
  const OperandA<uint32_t> rows{a, kPacked ? 1 : a_row_stride, kPacked ? kPairRows : 1};
  tile.add(d, rows, panel, kPairColumns, 0, count);
  tile.each(d, store);
}

// Computes rows [begin, end) of C. `scratch` holds kPairRows rows of A, to pad the last ones.
void multiply_rows(const Gemm<Bf16>& g, const uint32_t* panels, const float* bias, int64_t begin, int64_t end,
                   uint32_t* scratch, const Epilogue* epilogue) {
  const D d;
  const int64_t count = g.k / 2, group = panels_in_group(g);
  for (int64_t first = 0; first < g.n; first += group * kPairColumns) {
    const int64_t last = std::min(first + group * kPairColumns, g.n);
    for (int64_t row = begin; row < end; row += kPairRows) {
      const int64_t rows = std::min(kPairRows, end - row);
      const uint32_t* a = pairs(g.a + row * g.k);
      if (rows < kPairRows) {  // A may end after the last row
        std::fill(std::copy_n(a, rows * count, scratch), scratch + kPairRows * count, 0u);
        a = scratch;
      }
      for (int64_t column = first; column < last; column += kPairColumns) {
        Bf16* c = g.c + row * g.n + column;
        const int64_t columns = last - column;
        multiply<false>(a, count, panels + column * count, count, [&](int64_t r, int64_t j, Vec<D> v) HWY_ATTR {
          if (r >= rows || j >= columns) return;
          const int64_t left = columns - j;
          const bool whole = left >= static_cast<int64_t>(hn::Lanes(d));
          if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + column + j));
          Bf16* to = c + r * g.n + j;
          if (g.add) v = hn::Add(v, whole ? load_from(d, to) : load_first(d, to, left));
          whole ? store_rounded(v, to) : store_first(v, d, to, left);
        });
      }
      if (epilogue != nullptr) (*epilogue)({row, row + rows, first, last});
    }
  }
}

// C = A^T B for rows [part.row, part.end_row) and columns [part.column, part.end_column) of C.
void multiply_part(const Gemm<Bf16, float>& g, const Part& part, uint32_t* scratch) {
  const D d;
  for (int64_t k = 0; k < g.k; k += kPairK) {
    const int64_t size = std::min(kPairK, g.k - k), count = ceil_divide(size, 2);
    for (int64_t first = part.column; first < part.end_column; first += kPairNC) {
      const int64_t last = std::min(first + kPairNC, part.end_column);
      uint32_t* const b = scratch + kPairMC * kPairK / 2;
      for (int64_t column = first; column < last; column += kPairColumns) {
        pack_row_pairs<kPairColumns>(g.b + k * g.n + column, g.n, size, last - column, b + (column - first) * count);
      }
      for (int64_t top = part.row; top < part.end_row; top += kPairMC) {
        const int64_t bottom = std::min(top + kPairMC, part.end_row);
        for (int64_t row = top; row < bottom; row += kPairRows) {
          pack_row_pairs<kPairRows>(g.a + k * g.m + row, g.m, size, bottom - row, scratch + (row - top) * count);
        }
        for (int64_t column = first; column < last; column += kPairColumns) {
          for (int64_t row = top; row < bottom; row += kPairRows) {
            float* c = g.c + row * g.n + column;
            const int64_t rows = bottom - row, columns = last - column;
            const bool adds = g.add || k > 0;
            for (int64_t r = 0; r < std::min(kPairRows, rows); ++r) hwy::Prefetch(c + r * g.n);
            multiply<true>(scratch + (row - top) * count, 1, b + (column - first) * count, count,
                           [&](int64_t r, int64_t j, Vec<D> v) HWY_ATTR {
                             if (r >= rows || j >= columns) return;
                             const int64_t left = columns - j;
                             float* to = c + r * g.n + j;
                             if (left < static_cast<int64_t>(hn::Lanes(d))) {
                               store_first(adds ? hn::Add(v, load_first(d, to, left)) : v, d, to, left);
                             } else {
                               hn::StoreU(adds ? hn::Add(v, hn::LoadU(d, to)) : v, d, to);
                             }
                           });
          }
        }
      }
    }
  }
}

constexpr bool kHasKernels = true;
#else
void pack_b(const Gemm<Bf16>&, int64_t, uint32_t*) {}
void multiply_rows(const Gemm<Bf16>&, const uint32_t*, const float*, int64_t, int64_t, uint32_t*, const Epilogue*) {}
void multiply_part(const Gemm<Bf16, float>&, const Part&, uint32_t*) {}
constexpr bool kHasKernels = false;
#endif
bool has_kernels() { return kHasKernels; }

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(pack_b);
HWY_EXPORT(multiply_rows);
HWY_EXPORT(multiply_part);
HWY_EXPORT(has_kernels);

bool has_instructions() { return has_bf16_dot() && HWY_DYNAMIC_DISPATCH(has_kernels)(); }

}  // namespace

bool suits_pair_gemm(const Gemm<Bf16>& g) {
  const bool aligned = (reinterpret_cast<uintptr_t>(g.a) | reinterpret_cast<uintptr_t>(g.b)) % sizeof(uint32_t) == 0;
  return has_instructions() && aligned && !g.transpose_a && g.batches == 1 && g.k % 2 == 0 && g.k >= 2 &&
         g.k <= kMostPairK && g.n >= 1 && g.m >= 64;
}
bool suits_pair_gemm(const Gemm<Bf16, float>& g) {
  return has_instructions() && g.transpose_a && !g.transpose_b && g.batches == 1 && g.bias == nullptr && g.k >= 64 &&
         g.m >= kPairRows && g.n >= kPairRows;
}

void pair_gemm(Context& context, const Gemm<Bf16>& g, const Epilogue* epilogue) {
  const int64_t count = g.k / 2, panels = ceil_divide(g.n, kPairColumns), columns = panels * kPairColumns;
  const int64_t rows = rows_in_item(g), items = ceil_divide(g.m, rows),
                threads = std::min<int64_t>(items, max_threads());
  const Scratch<uint32_t> packed(context, columns * count), edges(context, threads * kPairRows * count);
  const Scratch<float> bias(context, g.bias != nullptr ? columns : 0);
  if (g.bias != nullptr) std::fill(std::copy_n(g.bias, g.n, bias.data()), bias.data() + columns, 0.0f);
  parallel_for(panels, ceil_divide(kElementwiseGrain, kPairColumns * count), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      HWY_DYNAMIC_DISPATCH(pack_b)(g, panel, packed.data() + panel * kPairColumns * count);
    }
  });
  parallel_tasks(items, threads, [&](int64_t item, int64_t thread) {
    HWY_DYNAMIC_DISPATCH(multiply_rows)
    (g, packed.data(), g.bias != nullptr ? bias.data() : nullptr, item * rows, std::min((item + 1) * rows, g.m),
     edges.data() + thread * kPairRows * count, epilogue);
  });
}

void pair_gemm(Context& context, const Gemm<Bf16, float>& g) {
  const bool by_rows = g.m >= g.n;
  const int64_t unit = by_rows ? kPairRows : kPairColumns, size = by_rows ? g.m : g.n;
  const int64_t parts = std::min<int64_t>(max_threads(), ceil_divide(size, unit));
  const Scratch<uint32_t> scratch(context, parts * kPartScratch);
  parallel_tasks(parts, parts, [&](int64_t i, int64_t thread) {
    const int64_t units = ceil_divide(size, unit);
    const int64_t begin = units * i / parts * unit, end = std::min(units * (i + 1) / parts * unit, size);
    const Part part = by_rows ? Part{begin, end, 0, g.n} : Part{0, g.m, begin, end};
    HWY_DYNAMIC_DISPATCH(multiply_part)(g, part, scratch.data() + thread * kPartScratch);
  });
}

}  // namespace heed::cpu
#endif
