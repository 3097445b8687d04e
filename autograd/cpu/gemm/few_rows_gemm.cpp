// Each element of C is the dot product of a row of A and a row of B. A register tile of kRows x kColumns of them shares
// the vectors that it loads. All rows of A pass over the kColumns rows of B while these are in the L1 cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/gemm/few_rows_gemm.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <utility>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/gemm/few_rows_gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// The register tile: rows of A and rows of B, with one accumulator for each pair.
constexpr int64_t kDotRows = kManyRegisters ? 4 : 2, kDotColumns = 4;

// Dot products of kRows rows of A with kColumns rows of B; both have k elements and are adjacent in memory.
template <class S, size_t kRows, size_t kColumns, class Cells = std::make_index_sequence<kRows * kColumns>>
class DotTile;
template <class S, size_t kRows, size_t kColumns, size_t... kCell>
class DotTile<S, kRows, kColumns, std::index_sequence<kCell...>> {
 public:
  using T = AccumT<S>;

  HWY_INLINE DotTile() { ((sums_[kCell] = hn::Zero(D())), ...); }

  HWY_INLINE void add(const S* a, const S* b, int64_t k) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= k; i += lanes) {
      // The rows of the next tile: they are too short for the hardware prefetcher.
      for (size_t c = 0; c < kColumns; ++c) hwy::Prefetch(b + (kColumns + c) * k + i);
      add_vector([&](const S* row) HWY_ATTR { return load_from(d, row + i); }, a, b, k);
    }
    if (i < k) add_vector([&](const S* row) HWY_ATTR { return load_first(d, row + i, k - i); }, a, b, k);
  }

  // Calls body(row, column, sum) for each dot product.
  template <class Body>
  HWY_INLINE void each(const Body& body) const {
    (body(kCell / kColumns, kCell % kColumns, hn::GetLane(hn::SumOfLanes(D(), sums_[kCell]))), ...);
  }

 private:
  using D = hn::ScalableTag<T>;

  template <class Load>
  HWY_INLINE void add_vector(const Load& load, const S* a, const S* b, int64_t k) {
    Vec<D> from_b[kColumns];
    ((kCell < kColumns ? void(from_b[kCell % kColumns] = load(b + kCell % kColumns * k)) : void()), ...);
    ((sums_[kCell] = hn::MulAdd(load(a + kCell / kColumns * k), from_b[kCell % kColumns], sums_[kCell])), ...);
  }

  Vec<D> sums_[kRows * kColumns];
};

template <class S, size_t kRows, size_t kColumns>
HWY_NOINLINE void dot_tile(const Gemm<S>& g, int64_t row, int64_t column) {
  DotTile<S, kRows, kColumns> tile;
  tile.add(g.a + row * g.k, g.b + column * g.k, g.k);
  tile.each([&](size_t r, size_t c, AccumT<S> sum) HWY_ATTR {
    const auto n = column + static_cast<int64_t>(c);
    S& result = g.c[(row + static_cast<int64_t>(r)) * g.n + n];
    if (g.bias != nullptr) sum += g.bias[n];
    if (g.add) sum += static_cast<AccumT<S>>(result);
    result = static_cast<S>(sum);
  });
}

// All rows of C, kColumns columns of it.
template <class S, size_t kColumns>
void dot_columns(const Gemm<S>& g, int64_t column) {
  int64_t row = 0;
  for (; row + kDotRows <= g.m; row += kDotRows) dot_tile<S, kDotRows, kColumns>(g, row, column);
  for (; row + 2 <= g.m; row += 2) dot_tile<S, 2, kColumns>(g, row, column);
  if (row < g.m) dot_tile<S, 1, kColumns>(g, row, column);
}

// Columns [begin, end) of C.
template <class S>
void dot_range(const Gemm<S>& g, int64_t begin, int64_t end) {
  int64_t column = begin;
  for (; column + kDotColumns <= end; column += kDotColumns) dot_columns<S, kDotColumns>(g, column);
  for (; column < end; ++column) dot_columns<S, 1>(g, column);
}
void dot_range_f32(const Gemm<float>& g, int64_t begin, int64_t end) { dot_range(g, begin, end); }
void dot_range_f64(const Gemm<double>& g, int64_t begin, int64_t end) { dot_range(g, begin, end); }
void dot_range_bf16(const Gemm<Bf16>& g, int64_t begin, int64_t end) { dot_range(g, begin, end); }

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(dot_range_f32);
HWY_EXPORT(dot_range_f64);
HWY_EXPORT(dot_range_bf16);

template <class S>
void run(const Gemm<S>& g, void (*range)(const Gemm<S>&, int64_t, int64_t)) {
  // Ranges are multiples of this, so that which tile computes an element depends on the shape alone. There are several
  // for each thread: if one is delayed, the others take its ranges.
  constexpr int64_t kColumns = 4, kGrainElements = 1 << 16, kRangesPerThread = 8;
  const int64_t tiles = ceil_divide(g.n, kColumns);
  const int64_t threads = std::clamp<int64_t>(g.n * g.k / kGrainElements, 1, std::min<int64_t>(tiles, max_threads()));
  const int64_t ranges = threads == 1 ? 1 : std::min(tiles, threads * kRangesPerThread);
  parallel_tasks(ranges, threads, [&](int64_t i, int64_t) {
    range(g, tiles * i / ranges * kColumns, std::min(tiles * (i + 1) / ranges * kColumns, g.n));
  });
}

// k up to which more rows of A stay in the L1 cache together with the rows of B.
constexpr int64_t kShortK = 1024;

template <class S>
bool suits(const Gemm<S>& g, int64_t most_rows, int64_t most_rows_of_short_k) {
  constexpr int64_t kLeastElements = 1 << 16;  // of B: a smaller one stays in the L2 cache
  return g.batches == 1 && !g.transpose_a && g.transpose_b && g.m >= 1 &&
         g.m <= (g.k <= kShortK ? most_rows_of_short_k : most_rows) && g.n * g.k >= kLeastElements;
}

}  // namespace

void few_rows_gemm(const Gemm<float>& product) { run(product, HWY_DYNAMIC_DISPATCH(dot_range_f32)); }
void few_rows_gemm(const Gemm<double>& product) { run(product, HWY_DYNAMIC_DISPATCH(dot_range_f64)); }
void few_rows_gemm(const Gemm<Bf16>& product) { run(product, HWY_DYNAMIC_DISPATCH(dot_range_bf16)); }

// Measured against oneDNN with one thread of a Zen 5 core at the shapes of GPT-2: 1.1 to 2 times as fast within these
// bounds, slower beyond them.
bool suits_few_rows_gemm(const Gemm<float>& product) { return suits(product, 8, 16); }
bool suits_few_rows_gemm(const Gemm<double>& product) { return suits(product, 8, 16); }
bool suits_few_rows_gemm(const Gemm<Bf16>& product) { return suits(product, 8, 8); }

}  // namespace heed::cpu
#endif
