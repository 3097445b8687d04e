#include "autograd/cpu/gemm/gemm.hpp"

#include <algorithm>

#include "autograd/cpu/gemm/block_gemm.hpp"
#include "autograd/cpu/gemm/onednn_gemm.hpp"
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

bool uses_onednn(const Gemm<float>& g) {
  const bool empty = g.m == 0 || g.n == 0 || g.k == 0;
  return kOneDnn && !empty && !suits_block_gemm(g);
}

}  // namespace

void gemm(Context& context, const Gemm<double>& product) { block_gemm(context, product); }

void gemm(Context& context, const Gemm<float>& product) {
  uses_onednn(product) ? run_onednn(product) : block_gemm(context, product);
}

void gemm(Context& context, const Gemm<double>& product, const Epilogue& epilogue) {
  block_gemm(context, product, &epilogue);
}

void gemm(Context& context, const Gemm<float>& product, const Epilogue& epilogue) {
  if (!uses_onednn(product)) return block_gemm(context, product, &epilogue);
  run_onednn(product);
  parallel_for(product.m, ceil_divide(kElementwiseGrain, product.n), [&](int64_t begin, int64_t end) {
    epilogue({begin, end, 0, product.n});
  });
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
