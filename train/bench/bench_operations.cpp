#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/tape.hpp"
#include "train/bench/bench.hpp"
#include "train/bench/bench_timing.hpp"
#include "train/output/json.hpp"
#include "train/output/output.hpp"

namespace heed::train {
namespace {

Tensor values_of(const SampleInput& input, DType dtype, Device device) {
  if (input.kind == SampleInput::Kind::tokens) return draw(input, dtype, 1).to(device);
  return bench_values(input.shape, input.is_vector ? accumulation_dtype(dtype) : dtype, device);
}

// The inputs of a sample. On CUDA several sets are used in rotation, so that no set is still in the cache when it is
// used again.
class InputSets {
 public:
  InputSets(const OpSample& sample, Device device, DType dtype) : sample_(sample) {
    constexpr int64_t kFarMoreThanCaches = 512 << 20, kMostSets = 8;
    int64_t bytes = 1;
    do {
      Tensors& set = sets_.emplace_back();
      for (const SampleInput& input : sample.inputs) {
        set.push_back(values_of(input, dtype, device));
        bytes += set.back().numel() * size_bytes(set.back().dtype());
      }
    } while (device == Device::cuda && bytes < kFarMoreThanCaches && std::ssize(sets_) < kMostSets);
  }

  void want_gradients() {
    for (const Tensors& set : sets_) {
      for (size_t i = 0; i < set.size(); ++i) set[i].set_requires_grad(sample_.inputs[i].wants_gradient());
    }
  }
  Tensor run() {
    next_ = (next_ + 1) % sets_.size();
    return sample_.run(sets_[next_]);
  }
  // Of the set that ran last, so that its next backward writes the gradients instead of accumulating into them.
  void drop_gradients() {
    for (const Tensor& input : sets_[next_]) input.set_grad(Tensor());
  }

 private:
  const OpSample& sample_;
  std::vector<Tensors> sets_;
  size_t next_ = 0;
};

double backward_seconds(InputSets& inputs, const Tensor& dy, Device device) {
  const auto backward_of = [&](const Tensor& result) {
    backward(result, dy);
    inputs.drop_gradients();
  };
  if (device == Device::cuda) {
    const double both = median(call_seconds(device, [&] { backward_of(inputs.run()); }));
    // The difference of two measured times may be negative if the backward does no work.
    return std::max(0.0, both - median(call_seconds(device, [&] { inputs.run(); })));
  }
  return median(repeat([&] {
    const Tensor result = inputs.run();
    return seconds_of([&] { backward_of(result); });
  }));
}

void check_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const OpCase& op : op_cases()) known.push_back(op.name);
  for (const std::string& name : names) {
    require<ConfigError>(std::find(known.begin(), known.end(), name) != known.end(),
                         "bench: there is no operation '{}'; there are {}", name, fmt::join(known, ", "));
  }
}

}  // namespace

std::vector<BenchRow> bench_operation(const std::string& name, const OpSample& sample, Device device, DType dtype) {
  InputSets inputs(sample, device, dtype);
  const double of_f32 = static_cast<double>(size_bytes(dtype)) / size_bytes(DType::f32);
  BenchRow forward{.operation = name, .shapes = sample.label, .flops = sample.flops, .bytes = of_f32 * sample.bytes};
  forward.seconds = median(call_seconds(device, [&] {
    const NoGradGuard no_grad;
    inputs.run();
  }));
  inputs.want_gradients();
  const Tensor y = inputs.run();
  if (!y.requires_grad()) return {forward};
  const Tensor dy = bench_values(y.shape(), y.dtype(), device);
  BenchRow backwards = forward;
  backwards.is_backward = true;
  backwards.flops = sample.backward_flops < 0 ? 2 * sample.flops : sample.backward_flops;
  backwards.bytes =
      of_f32 * (sample.backward_bytes < 0 ? 2 * sample.bytes : sample.backward_bytes) + sample.backward_parameter_bytes;
  backwards.seconds = backward_seconds(inputs, dy, device);
  return {forward, backwards};
}

void bench_operations(const std::vector<std::string>& names, const BenchOperationsOptions& options) {
  check_names(names);
  const Device device = options.device;
  require<DeviceError>(device == Device::cpu || cuda::status().problem.empty(), "bench: --device cuda: {}",
                       cuda::status().problem);
  const Ceilings ceilings{device, copy_bandwidth(device), gemm_rate(options.dtype, device)};
  if (!options.as_json) {
    print("ceilings: {}\n", ceilings_text(ceilings, gemm_text(options.dtype, device)));
    print("{}; data that fits into the caches can pass 100 % of the copy\n", options.dtype);
  }
  std::vector<std::string> json_rows;
  for (const OpCase& op : op_cases()) {
    if (!names.empty() && std::find(names.begin(), names.end(), op.name) == names.end()) continue;
    for (const OpSample& sample : op.benches) {
      if (sample.bench_on != device) continue;
      for (const BenchRow& row : bench_operation(op.name, sample, device, options.dtype)) {
        json_rows.push_back(row.json(ceilings));
        if (!options.as_json) print("  {:<56} {:>9.4f} ms {}\n", row.label(), row.seconds * 1e3, row.rates(ceilings));
      }
      release_cached_memory(device);  // makes room for the large blocks of the next operation
    }
  }
  if (options.as_json) {
    print("{}\n", json::object({{"device", json::text(device_text(device))},
                                {"dtype", json::text(name(options.dtype))},
                                {"ceilings", ceilings_json(ceilings)},
                                {"operations", json::list(json_rows)}}));
  }
}

}  // namespace heed::train
