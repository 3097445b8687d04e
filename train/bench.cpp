#include "train/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "autograd/cpu/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/op_case.hpp"
#include "autograd/tape.hpp"
#include "train/output.hpp"
#include "train/trainer.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

// What timed() returns, its seconds, in rising order: enough calls to trust the middle one.
template <class F>
std::vector<double> repeat(F&& timed) {
  constexpr double kBudget = 0.2;
  constexpr size_t kLeast = 5, kMost = 1000;
  timed();
  std::vector<double> seconds;
  for (double spent = 0; seconds.size() < kLeast || (spent < kBudget && seconds.size() < kMost);) {
    seconds.push_back(timed());
    spent += seconds.back();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

template <class F>
double seconds_of(F&& call) {
  const auto begin = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

template <class F>
double median_seconds(F&& call) {
  return median(repeat([&] { return seconds_of(call); }));
}

// For ceilings: the best that was seen.
template <class F>
double best_seconds(F&& call) {
  return repeat([&] { return seconds_of(call); }).front();
}

// Bytes read and written per second by a copy far larger than the caches.
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

double gemm_rate(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  const Tensor a = full({m * k}, DType::f32, 0.5), b = full({k * n}, DType::f32, 0.5), c = zeros({m * n}, DType::f32);
  const cpu::Gemm<float> product{.m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a.data<float>(),
                                 .b = b.data<float>(),
                                 .c = c.data<float>(),
                                 .transpose_a = transpose_a,
                                 .transpose_b = transpose_b};
  return 2.0 * static_cast<double>(m * n * k) / best_seconds([&] { cpu::gemm(context(Device::cpu), product); });
}

// The best of the products that a block of this model makes.
double peak_at_shapes(const nn::GptConfig& m, int64_t tokens) {
  const int64_t qkv = (m.num_heads + 2 * m.kv_heads()) * m.head_size(), c = m.d_model, f = m.feed_forward_size();
  double best = 0;
  for (const auto& [in, out] : {std::pair{c, qkv}, {c, c}, {c, f}, {f, c}}) {
    best = std::max({best, gemm_rate(tokens, out, in, false, true), gemm_rate(tokens, in, out, false, false),
                     gemm_rate(out, in, tokens, true, false)});
  }
  return best;
}

struct Ceilings {
  double bytes_per_s, flops_per_s;
};

void print_row(const std::string& label, double seconds, const OpSample& sample, double work,
               const Ceilings& ceilings) {
  const double flops = work * sample.flops / seconds, bytes = work * sample.bytes / seconds;
  const double share = std::max(flops / ceilings.flops_per_s, bytes / ceilings.bytes_per_s);
  print("  {:<44} {:>9.3f} ms {:>8.1f} GFLOP/s {:>7.1f} GB/s {:>5.0f} %\n", label, seconds * 1e3, flops / 1e9,
        bytes / 1e9, share * 100);
}

void bench_operation(const OpCase& op, const Ceilings& ceilings) {
  for (const OpSample& sample : op.benches) {
    Tensors inputs;
    for (const SampleInput& input : sample.inputs) inputs.push_back(draw(input, DType::f32, 1));
    const std::string label = fmt::format("{} {}", op.name, sample.label);
    const double forward = median_seconds([&] {
      const NoGradGuard no_grad;
      sample.run(inputs);
    });
    print_row(label, forward, sample, 1, ceilings);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].set_requires_grad(sample.inputs[i].wants_gradient());
    const Tensor y = sample.run(inputs);
    if (!y.requires_grad()) continue;
    const Tensor dy = full(y.shape(), y.dtype(), 1.0);
    // The forward before each backward is not timed.
    const double backwards = median(repeat([&] {
      const Tensor result = sample.run(inputs);
      return seconds_of([&] { backward(result, dy); });
    }));
    // A backward does about twice the work of its forward.
    print_row(label + " backward", backwards, sample, 2, ceilings);
  }
}

}  // namespace

void bench_operations(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool known =
        std::any_of(op_cases().begin(), op_cases().end(), [&](const OpCase& op) { return op.name == name; });
    require<ConfigError>(known, "bench: there is no operation '{}' (`heed gradcheck` lists them all)", name);
  }
  const Ceilings ceilings{copy_bandwidth(), gemm_rate(1024, 1024, 1024, false, true)};
  print("ceilings: {:.1f} GB/s (copy of 256 MiB, read + write), {:.0f} GFLOP/s (f32 product 1024^3), {} threads\n",
        ceilings.bytes_per_s / 1e9, ceilings.flops_per_s / 1e9, cpu::max_threads());
  print("data that fits into the caches can pass 100 % of the copy\n");
  for (const OpCase& op : op_cases()) {
    if (names.empty() || std::find(names.begin(), names.end(), op.name) != names.end()) bench_operation(op, ceilings);
  }
}

void bench_update(const Config& config) {
  Trainer trainer(config);
  const nn::GptConfig& m = trainer.config().model;
  const int64_t tokens_per_update = config.train.batch_size * m.seq_len;
  constexpr int kWarmUp = 3;
  for (int i = 0; i < kWarmUp; ++i) trainer.update();
  const double seconds = median_seconds([&] { trainer.update(); });
  const double weights = 6.0 * static_cast<double>(trainer.model().gemm_weights());
  const double attention = 6.0 * static_cast<double>(m.num_layers * m.seq_len * m.d_model);
  const double peak = peak_at_shapes(m, config.train.rows_per_micro_batch() * m.seq_len);
  const double rate = static_cast<double>(tokens_per_update) / seconds;
  print("update        {:.2f} ms, {:.0f} tokens/s ({} tokens, {} parameters, {})\n", seconds * 1e3, rate,
        tokens_per_update, trainer.model().parameters().parameters(), name(config.train.precision));
  print("FLOPs/token   {:.4g} in weights + {:.4g} in attention\n", weights, attention);
  print("MFU           {:.1f} % of {:.0f} GFLOP/s (best f32 product at this model's shapes)\n",
        100 * rate * (weights + attention) / peak, peak / 1e9);
}

}  // namespace heed::train
