#include "autograd/cpu/gemm.hpp"

#include <algorithm>

#include "autograd/cpu/onednn_gemm.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {
namespace {

template <class T>
void start_row(const Gemm<T>& g, T* row) {
  if (g.add) {
    if (g.bias != nullptr) {
      for (int64_t j = 0; j < g.n; ++j) row[j] += g.bias[j];
    }
  } else if (g.bias != nullptr) {
    std::copy_n(g.bias, g.n, row);
  } else {
    std::fill_n(row, g.n, T(0));
  }
}

template <class T>
void gemm_loops(const Gemm<T>& g) {
  const int64_t a_row = g.transpose_a ? 1 : g.k, a_column = g.transpose_a ? g.m : 1;
  constexpr int64_t kGrainOperations = 1 << 16;
  parallel_for(g.m, std::max<int64_t>(1, kGrainOperations / std::max<int64_t>(1, g.n * g.k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   T* row = g.c + i * g.n;
                   start_row(g, row);
                   if (g.transpose_b) {
                     for (int64_t j = 0; j < g.n; ++j) {
                       T sum = 0;
                       for (int64_t p = 0; p < g.k; ++p) sum += g.a[i * a_row + p * a_column] * g.b[j * g.k + p];
                       row[j] += sum;
                     }
                   } else {
                     for (int64_t p = 0; p < g.k; ++p) {
                       const T factor = g.a[i * a_row + p * a_column];
                       for (int64_t j = 0; j < g.n; ++j) row[j] += factor * g.b[p * g.n + j];
                     }
                   }
                 }
               });
}

// The elements of `from` as To.
template <class To, class From>
void convert(const From* from, To* to, int64_t count) {
  parallel_for(count, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::transform(from + begin, from + end, to + begin, [](From v) { return static_cast<To>(static_cast<float>(v)); });
  });
}

template <class Out>
void widened(Context& context, const Gemm<Bf16, Out>& g) {
  const Scratch<float> a(context, g.m * g.k), b(context, g.k * g.n);
  convert(g.a, a.data(), g.m * g.k);
  convert(g.b, b.data(), g.k * g.n);
  Gemm<float> wide{.m = g.m,
                   .n = g.n,
                   .k = g.k,
                   .a = a.data(),
                   .b = b.data(),
                   .transpose_a = g.transpose_a,
                   .transpose_b = g.transpose_b,
                   .add = g.add,
                   .bias = g.bias};
  if constexpr (std::is_same_v<Out, float>) {
    wide.c = g.c;
    gemm(context, wide);
  } else {
    const Scratch<float> c(context, g.m * g.n);
    if (g.add) convert(g.c, c.data(), g.m * g.n);
    wide.c = c.data();
    gemm(context, wide);
    convert(c.data(), g.c, g.m * g.n);
  }
}

template <class Out>
void gemm_bf16(Context& context, const Gemm<Bf16, Out>& g) {
  const bool empty = g.m == 0 || g.n == 0 || g.k == 0;
  has_bf16_products() && !empty ? run_onednn(g) : widened(context, g);
}

}  // namespace

void gemm(Context&, const Gemm<double>& product) { gemm_loops(product); }

void gemm(Context&, const Gemm<float>& product) {
  const bool empty = product.m == 0 || product.n == 0 || product.k == 0;
  kOneDnn && !empty ? run_onednn(product) : gemm_loops(product);
}

void gemm(Context& context, const Gemm<Bf16>& product) { gemm_bf16(context, product); }
void gemm(Context& context, const Gemm<Bf16, float>& product) { gemm_bf16(context, product); }
void gemm_widened(Context& context, const Gemm<Bf16>& product) { widened(context, product); }
void gemm_widened(Context& context, const Gemm<Bf16, float>& product) { widened(context, product); }

bool has_bf16_products() {
#if defined(__x86_64__)
  return kOneDnn && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace heed::cpu
