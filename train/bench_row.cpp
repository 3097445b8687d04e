#include "train/bench_row.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/cpu/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/tensor.hpp"
#include "train/bench_timing.hpp"
#include "train/json.hpp"

namespace heed::train {
namespace {

struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

double rate(DType dtype, const Product& p) {
  const Tensor a = full({p.m * p.k}, dtype, 0.5), b = full({p.k * p.n}, dtype, 0.5), c = zeros({p.m * p.n}, dtype);
  const double seconds = visit_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    const cpu::Gemm<T> product{.m = p.m,
                               .n = p.n,
                               .k = p.k,
                               .a = a.data<T>(),
                               .b = b.data<T>(),
                               .c = c.data<T>(),
                               .transpose_a = p.transpose_a,
                               .transpose_b = p.transpose_b};
    return best_seconds([&] { cpu::gemm(context(Device::cpu), product); });
  });
  return 2.0 * static_cast<double>(p.m * p.n * p.k) / seconds;
}

}  // namespace

double copy_bandwidth() {
  constexpr int64_t kBytes = 256 << 20;
  const Tensor from = zeros({kBytes / 4}, DType::f32), to = zeros({kBytes / 4}, DType::f32);
  return 2.0 * kBytes / best_seconds([&] {
           cpu::parallel_for(kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
             std::memcpy(static_cast<char*>(to.ref().data) + begin, static_cast<char*>(from.ref().data) + begin,
                         static_cast<size_t>(end - begin));
           });
         });
}

double product_rate(DType dtype) { return rate(dtype, {1024, 1024, 1024, false, true}); }

double product_rate(DType dtype, const nn::GptConfig& model, int64_t tokens) {
  const int64_t c = model.d_model, f = model.feed_forward_size();
  const int64_t qkv = (model.num_heads + 2 * model.kv_heads()) * model.head_size();
  double best = 0;
  for (const auto& [in, out] : {std::pair{c, qkv}, {c, c}, {c, f}, {f, c}}) {
    best = std::max({best, rate(dtype, {tokens, out, in, false, true}), rate(dtype, {tokens, in, out, false, false}),
                     rate(dtype, {out, in, tokens, true, false})});
  }
  return best;
}

std::string BenchRow::label() const {
  return fmt::format("{}{}{}{}", operation, shapes.empty() ? "" : " ", shapes, is_backward ? " backward" : "");
}

double BenchRow::share_of(const Ceilings& ceilings) const {
  return std::max(flops / seconds / ceilings.flops_per_s, bytes / seconds / ceilings.bytes_per_s);
}

std::string BenchRow::rates(const Ceilings& ceilings) const {
  const auto rate = [&](double work, const char* unit) {
    return work == 0 ? std::string(8 + std::strlen(unit), ' ') : fmt::format("{:>8.1f}{}", work / seconds / 1e9, unit);
  };
  const double share = share_of(ceilings);
  return fmt::format("{}{}{}", rate(flops, " GFLOP/s"), rate(bytes, " GB/s"),
                     share == 0 ? "" : fmt::format(" {:>5.0f} %", share * 100));
}

std::string BenchRow::json(const Ceilings& ceilings) const {
  return json::object({{"operation", json::text(operation)},
                       {"shapes", json::text(shapes)},
                       {"direction", json::text(is_backward ? "backward" : "forward")},
                       {"calls", json::number(calls)},
                       {"seconds", json::number(seconds)},
                       {"gflop_per_s", json::number(flops / seconds / 1e9)},
                       {"gb_per_s", json::number(bytes / seconds / 1e9)},
                       {"share_of_ceiling", json::number(share_of(ceilings))}});
}

std::string ceilings_text(const Ceilings& ceilings, const std::string& product) {
  return fmt::format("{:.1f} GB/s (copy of 256 MiB, read + write), {:.0f} GFLOP/s ({}), {} threads",
                     ceilings.bytes_per_s / 1e9, ceilings.flops_per_s / 1e9, product, cpu::max_threads());
}

std::string ceilings_json(const Ceilings& ceilings) {
  return json::object({{"gb_per_s", json::number(ceilings.bytes_per_s / 1e9)},
                       {"gflop_per_s", json::number(ceilings.flops_per_s / 1e9)}});
}

}  // namespace heed::train
