#include "train/bench/roofline.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "autograd/check/op_case.hpp"
#include "autograd/core/context.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/core/device.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/linear.hpp"
#include "train/bench/bench_timing.hpp"
#include "train/output/json.hpp"

namespace heed::train {
namespace {

// Far larger than the caches, which have up to some tens of MiB.
int64_t copied_bytes(Device device) { return int64_t{device == Device::cuda ? 1024 : 256} << 20; }
int64_t gemm_side(Device device) { return device == Device::cuda ? 8192 : 1024; }

double best_seconds(Device device, const std::function<void()>& call) { return call_seconds(device, call).front(); }

// FLOP/s of the fastest of the three GEMMs of y = x weight^T: y, dx and dweight.
double best_rate(DType dtype, Device device, int64_t rows, int64_t inputs, int64_t outputs) {
  const Tensor x = bench_values({rows, inputs}, dtype, device), y = bench_values({rows, outputs}, dtype, device);
  const Tensor weight = bench_values({outputs, inputs}, dtype, device);
  const Tensor result = empty({std::max(rows, outputs) * std::max(inputs, outputs)}, accumulation_dtype(dtype), device);
  const auto into = [&](const Shape& shape, DType type) { return TensorRef{result.ref().data, shape, type, device}; };
  const double seconds = std::min(
      {best_seconds(
           device,
           [&] { HEED_DISPATCH(device, linear_forward, {.y = into(y.shape(), dtype), .x = x, .weight = weight}); }),
       best_seconds(device,
                    [&] {
                      HEED_DISPATCH(device, linear_backward,
                                    {.dx = {into(x.shape(), dtype), false}, .dy = y, .x = x, .weight = weight});
                    }),
       best_seconds(device, [&] {
         HEED_DISPATCH(
             device, linear_backward,
             {.dweight = {into(weight.shape(), accumulation_dtype(dtype)), false}, .dy = y, .x = x, .weight = weight});
       })});
  return 2.0 * static_cast<double>(rows * inputs * outputs) / seconds;
}

// The block for each dtype and device that bench_values() repeats, because copying values is faster than drawing them.
std::map<std::pair<DType, Device>, Tensor>& value_blocks() {
  static std::map<std::pair<DType, Device>, Tensor> blocks;
  return blocks;
}

void copy_with_threads(const Tensor& to, const Tensor& from, int64_t bytes) {
  cpu::parallel_for(bytes, 1 << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to.ref().data) + begin, static_cast<char*>(from.ref().data) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

Tensor bench_values(const Shape& shape, DType dtype, Device device) {
  constexpr int64_t kBlock = 1 << 20;
  Tensor& block = value_blocks()[{dtype, device}];
  if (!block) block = draw(normal("values", {kBlock}), dtype, 1).to(device);
  const Tensor whole = empty(shape, dtype, device);
  for (int64_t done = 0; done < shape.numel(); done += kBlock) {
    const Shape part{std::min(kBlock, shape.numel() - done)};
    copy_elements_to(whole.slice(done, part).ref(), block.slice(0, part));
  }
  return whole;
}

void forget_bench_values() { value_blocks().clear(); }

double copy_bandwidth(Device device) {
  const int64_t bytes = copied_bytes(device);
  const Tensor from = bench_values({bytes / 4}, DType::f32, device), to = zeros({bytes / 4}, DType::f32, device);
  const double seconds = best_seconds(device, [&] {
    device == Device::cuda ? cuda::copy_on_device(to.ref().data, from.ref().data, bytes)
                           : copy_with_threads(to, from, bytes);
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

double gemm_rate(DType dtype, Device device) {
  const int64_t side = gemm_side(device);
  return best_rate(dtype, device, side, side, side);
}

double gemm_rate(DType dtype, Device device, const nn::GptConfig& model, int64_t tokens) {
  const int64_t c = model.d_model, f = model.feed_forward_size(), up = model.feed_forward_outputs();
  const int64_t qkv = (model.num_heads + 2 * model.kv_heads()) * model.head_size();
  double best = 0;
  for (const auto& [inputs, outputs] : {std::pair{c, qkv}, {c, c}, {c, up}, {f, c}}) {
    best = std::max(best, best_rate(dtype, device, tokens, inputs, outputs));
  }
  return best;
}

std::string gemm_text(DType dtype, Device device) { return fmt::format("{} GEMM {}^3", dtype, gemm_side(device)); }

std::string ceilings_text(const Ceilings& ceilings, const std::string& gemm) {
  return fmt::format("{:.1f} GB/s (copy of {} MiB, read + write), {:.0f} GFLOP/s ({}), {}", ceilings.bytes_per_s / 1e9,
                     copied_bytes(ceilings.device) >> 20, ceilings.flops_per_s / 1e9, gemm,
                     device_text(ceilings.device));
}

std::string ceilings_json(const Ceilings& ceilings) {
  return json::object({{"gb_per_s", json::number(ceilings.bytes_per_s / 1e9)},
                       {"gflop_per_s", json::number(ceilings.flops_per_s / 1e9)}});
}

std::string device_text(Device device) {
  if (device == Device::cpu) return fmt::format("{} threads", cpu::max_threads());
  const cuda::DeviceInfo& info = cuda::status().devices.at(0);
  return fmt::format("{} ({})", info.name, info.architecture);
}

std::string BenchRow::label() const {
  return fmt::format("{}{}{}{}", operation, shapes.empty() ? "" : " ", shapes, is_backward ? " backward" : "");
}

double BenchRow::per_second(double work) const { return seconds > 0 ? work / seconds : 0; }

double BenchRow::share_of(const Ceilings& ceilings) const {
  return std::max(per_second(flops) / ceilings.flops_per_s, per_second(bytes) / ceilings.bytes_per_s);
}

std::string BenchRow::rates(const Ceilings& ceilings) const {
  const auto rate = [&](double work, const char* unit) {
    return work == 0 ? std::string(8 + std::strlen(unit), ' ')
                     : fmt::format("{:>8.1f}{}", per_second(work) / 1e9, unit);
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
                       {"gflop_per_s", json::number(per_second(flops) / 1e9)},
                       {"gb_per_s", json::number(per_second(bytes) / 1e9)},
                       {"share_of_ceiling", json::number(share_of(ceilings))}});
}

}  // namespace heed::train
