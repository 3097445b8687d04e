#include <algorithm>

#include "autograd/op_case.hpp"
#include "autograd/tape.hpp"
#include "train/bench.hpp"
#include "train/bench_row.hpp"
#include "train/bench_timing.hpp"
#include "train/json.hpp"
#include "train/output.hpp"

namespace heed::train {
namespace {

// Forward, and backward where there is one.
std::vector<BenchRow> rows_of(const std::string& operation, const OpSample& sample) {
  Tensors inputs;
  for (const SampleInput& input : sample.inputs) inputs.push_back(draw(input, DType::f32, 1));
  BenchRow forward{.operation = operation, .shapes = sample.label, .flops = sample.flops, .bytes = sample.bytes};
  forward.seconds = median_seconds([&] {
    const NoGradGuard no_grad;
    sample.run(inputs);
  });
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].set_requires_grad(sample.inputs[i].wants_gradient());
  const Tensor y = sample.run(inputs);
  if (!y.requires_grad()) return {forward};
  const Tensor dy = full(y.shape(), y.dtype(), 1.0);
  BenchRow backwards = forward;
  backwards.is_backward = true;
  // A backward does about twice the work of its forward.
  backwards.flops *= 2;
  backwards.bytes *= 2;
  // The forward before each backward is not timed.
  backwards.seconds = median(repeat([&] {
    const Tensor result = sample.run(inputs);
    return seconds_of([&] { backward(result, dy); });
  }));
  return {forward, backwards};
}

}  // namespace

void bench_operations(const std::vector<std::string>& names, bool as_json) {
  for (const std::string& name : names) {
    const bool known =
        std::any_of(op_cases().begin(), op_cases().end(), [&](const OpCase& op) { return op.name == name; });
    require<ConfigError>(known, "bench: there is no operation '{}' (`heed gradcheck` lists them all)", name);
  }
  const Ceilings ceilings{copy_bandwidth(), product_rate(DType::f32)};
  if (!as_json) {
    print("ceilings: {}\n", ceilings_text(ceilings, "f32 product 1024^3"));
    print("data that fits into the caches can pass 100 % of the copy\n");
  }
  std::vector<std::string> json_rows;
  for (const OpCase& op : op_cases()) {
    if (!names.empty() && std::find(names.begin(), names.end(), op.name) == names.end()) continue;
    for (const OpSample& sample : op.benches) {
      for (const BenchRow& row : rows_of(op.name, sample)) {
        json_rows.push_back(row.json(ceilings));
        if (!as_json) print("  {:<48} {:>9.3f} ms {}\n", row.label(), row.seconds * 1e3, row.rates(ceilings));
      }
    }
  }
  if (as_json) {
    print("{}\n", json::object({{"ceilings", ceilings_json(ceilings)}, {"operations", json::list(json_rows)}}));
  }
}

}  // namespace heed::train
