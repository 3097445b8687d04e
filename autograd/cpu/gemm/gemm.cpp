#include "autograd/cpu/gemm/gemm.hpp"

#include <algorithm>
#include <utility>

#include "autograd/cpu/gemm/block_gemm.hpp"
#include "autograd/cpu/gemm/few_rows_gemm.hpp"
#include "autograd/cpu/gemm/onednn_gemm.hpp"
#include "autograd/cpu/gemm/pair_gemm.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {
namespace {

// Converts `count` elements from From to To, through f32.
template <class To, class From>
void convert(const From* from, To* to, int64_t count) {
  parallel_for(count, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::transform(from + begin, from + end, to + begin, [](From v) { return static_cast<To>(static_cast<float>(v)); });
  });
}

template <class Out>
void widened(Context& context, const Gemm<Bf16, Out>& g) {
  const int64_t a_count = g.batches * g.m * g.k, b_count = g.batches * g.k * g.n, c_count = g.batches * g.m * g.n;
  const Scratch<float> a(context, a_count), b(context, b_count);
  convert(g.a, a.data(), a_count);
  convert(g.b, b.data(), b_count);
  Gemm<float> wide{.m = g.m,
                   .n = g.n,
                   .k = g.k,
                   .batches = g.batches,
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
    const Scratch<float> c(context, c_count);
    if (g.add) convert(g.c, c.data(), c_count);
    wide.c = c.data();
    gemm(context, wide);
    convert(c.data(), g.c, c_count);
  }
}

template <class T, class Out>
bool is_empty(const Gemm<T, Out>& g) {
  return g.batches == 0 || g.m == 0 || g.n == 0 || g.k == 0;
}

template <class Out>
void gemm_bf16(Context& context, const Gemm<Bf16, Out>& g) {
  if constexpr (std::is_same_v<Out, Bf16>) {
    if (suits_few_rows_gemm(g)) return few_rows_gemm(g);
  }
  if (suits_pair_gemm(g)) return pair_gemm(context, g);
  has_bf16_products() && !is_empty(g) ? run_onednn(g) : widened(context, g);
}

// oneDNN divides a batch among the threads, the blocked GEMM each of its matrices.
bool uses_onednn(const Gemm<float>& g) { return kOneDnn && !is_empty(g) && (g.batches > 1 || !suits_block_gemm(g)); }

template <class T>
void block_gemms(Context& context, Gemm<T> g) {
  for (int64_t left = std::exchange(g.batches, 1); left > 0; --left) {
    block_gemm(context, g);
    g.a += g.m * g.k;
    g.b += g.k * g.n;
    g.c += g.m * g.n;
  }
}

// The epilogue of all rows of C.
template <class T>
void run_epilogue(const Gemm<T>& g, const Epilogue& epilogue) {
  if (g.n == 0) return;
  parallel_for(g.m, ceil_divide(kElementwiseGrain, g.n), [&](int64_t begin, int64_t end) {
    epilogue({begin, end, 0, g.n});
  });
}

}  // namespace

void gemm(Context& context, const Gemm<double>& product) {
  suits_few_rows_gemm(product) ? few_rows_gemm(product) : block_gemms(context, product);
}

void gemm(Context& context, const Gemm<float>& product) {
  if (suits_few_rows_gemm(product)) return few_rows_gemm(product);
  uses_onednn(product) ? run_onednn(product) : block_gemms(context, product);
}

void gemm(Context& context, const Gemm<double>& product, const Epilogue& epilogue) {
  if (!suits_few_rows_gemm(product)) return block_gemm(context, product, &epilogue);
  few_rows_gemm(product);
  run_epilogue(product, epilogue);
}

void gemm(Context& context, const Gemm<float>& product, const Epilogue& epilogue) {
  const bool few_rows = suits_few_rows_gemm(product);
  if (!few_rows && !uses_onednn(product)) return block_gemm(context, product, &epilogue);
  few_rows ? few_rows_gemm(product) : run_onednn(product);
  run_epilogue(product, epilogue);
}

void gemm(Context& context, const Gemm<Bf16>& product, const Epilogue& epilogue) {
  if (!suits_few_rows_gemm(product) && suits_pair_gemm(product)) return pair_gemm(context, product, &epilogue);
  gemm(context, product);
  run_epilogue(product, epilogue);
}

void gemm(Context& context, const Gemm<Bf16>& product) { gemm_bf16(context, product); }
void gemm(Context& context, const Gemm<Bf16, float>& product) { gemm_bf16(context, product); }
void gemm_widened(Context& context, const Gemm<Bf16>& product) { widened(context, product); }
void gemm_widened(Context& context, const Gemm<Bf16, float>& product) { widened(context, product); }

bool has_bf16_dot() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}
bool has_bf16_products() { return kOneDnn && has_bf16_dot(); }

}  // namespace heed::cpu
