// Attention on CUDA beyond its OP_CASE: both kinds of kernels at the edges of their tiles, and what must be exact.
#include <cmath>

#include "autograd/ops/attention/cuda/path.hpp"
#include "autograd/ops/dropout.hpp"
#include "tests/autograd/attention_poison.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using AttentionOnCuda = CudaTest;

const RandomStream kRandom{.seed = 5, .site = random_site(RandomDomain::dropout, 1, 3), .step = 17};

Inputs changed(const Inputs& in, const std::function<Tensor(const Tensor&)>& change) {
  return {change(in.q), change(in.k), change(in.v), change(in.dy)};
}
Inputs to_cuda(const Inputs& in) {
  return changed(in, [](const Tensor& x) { return x.to(Device::cuda); });
}
Inputs in_f64(const Inputs& in) {
  return changed(in, [](const Tensor& x) { return from_values(x.shape(), DType::f64, x.values()); });
}
Tensor absolute(const Tensor& x) {
  const Values values = x.values();
  return from_values(x.shape(), x.dtype(),
                     numbers(x.numel(), [&](int64_t i) { return std::abs(values[static_cast<size_t>(i)]); }));
}

double largest(const Values& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

// |got - want| <= bound * size, element by element.
void expect_within(const Values& got, const Values& want, double bound, const Values& size, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), bound * size[i]) << what << "[" << i << "]";
  }
}

// Weights are rounded to bf16 before they meet v and dy, and the sum is rounded once more: each by half of kBf16Epsilon
// of what it is, so a sum by no more than of the sum of absolute values. Gradients of scores also feel the rounding of
// y.
void expect_rounded_twice(const Inputs& in, const AttentionOptions& options) {
  const Result got = run(to_cuda(in), options);
  const Inputs exact_in = in_f64(in);
  const Result exact = run(exact_in, options);
  const Result sizes = run({exact_in.q, exact_in.k, absolute(exact_in.v), absolute(exact_in.dy)}, options);
  expect_within(got.y, exact.y, kBf16Epsilon, sizes.y, "y");
  expect_within(got.dv, exact.dv, kBf16Epsilon, sizes.dv, "dv");
  for (const auto& [part, name] : {std::pair(&Result::dq, "dq"), std::pair(&Result::dk, "dk")}) {
    const Values size((exact.*part).size(), largest(exact.*part));
    expect_within(got.*part, exact.*part, kBf16Epsilon, size, name);
  }
}

TEST_F(AttentionOnCuda, TensorCoresRoundWeightsOnce) {
  for (const int64_t size : {32, 64, 72, 128}) {
    SCOPED_TRACE(size);
    const Inputs in = random_inputs({1, 200, 2 * size}, {1, 200, size}, DType::bf16);
    expect_rounded_twice(in, {.num_heads = 2, .num_kv_heads = 1});
    expect_rounded_twice(in, {.num_heads = 2, .num_kv_heads = 1, .dropout = 0.3, .random = kRandom, .first_row = 6});
  }
}

TEST_F(AttentionOnCuda, TakesEveryLength) {
  const auto expect_like_cpu = [](const Inputs& in, const AttentionOptions& options) {
    const Result got = run(to_cuda(in), options), want = run(in, options);
    const double bound = in.q.dtype() == DType::f32 ? kF32 : kBf16Epsilon;
    expect_close(got.y, want.y, bound, "y");
    expect_close(got.dq, want.dq, bound, "dq");
    expect_close(got.dk, want.dk, bound, "dk");
    expect_close(got.dv, want.dv, bound, "dv");
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t queries : {1, 16, 31, 64, 65, 129}) {
      for (const int64_t keys : {1, 17, 32, 63, 64, 129}) {
        SCOPED_TRACE(fmt::format("{}, {} queries, {} keys", dtype, queries, keys));
        const Inputs in = random_inputs({1, queries, 2 * 8}, {1, keys, 2 * 8}, dtype);
        for (const bool causal : {true, false}) expect_like_cpu(in, {.num_heads = 2, .causal = causal});
      }
    }
  }
}

TEST_F(AttentionOnCuda, PaddingIsNeverTouched) {
  expect_padding_untouched({DType::f32, 7, Device::cuda});
  expect_padding_untouched({DType::bf16, 7, Device::cuda});
  expect_padding_untouched({DType::bf16, 16, Device::cuda});
}

TEST_F(AttentionOnCuda, TheFutureIsNeverTouched) {
  expect_future_untouched({DType::f32, 5, Device::cuda}, 140, {0, 63, 64, 70, 139});
  expect_future_untouched({DType::bf16, 5, Device::cuda}, 70, {0, 63, 69});
  for (const int64_t size : {16, 72}) expect_future_untouched({DType::bf16, size, Device::cuda}, 140, {0, 63, 70, 139});
}

// With v[j] = the unit vector of j, y holds the weights; q = 0 makes them equal before dropout.
TEST_F(AttentionOnCuda, DropsTheWeightsThatTheStreamSays) {
  constexpr int64_t kQueries = 37, kHeads = 2, kFirstRow = 6;
  constexpr double kP = 0.3;
  for (const auto& [dtype, keys] :
       {std::pair(DType::f32, 67), std::pair(DType::bf16, 67), std::pair(DType::bf16, 104)}) {
    const int64_t width = kHeads * keys;
    const Tensor v = from_values(
        {2, keys, width}, dtype,
        numbers(2 * keys * width, [&, keys = keys](int64_t i) { return i % keys == i / width % keys ? 1.0 : 0.0; }),
        Device::cuda);
    const Tensor q = zeros({2, kQueries, width}, dtype, Device::cuda);
    const Values y =
        attention(q, v, v,
                  {.num_heads = kHeads, .causal = false, .dropout = kP, .random = kRandom, .first_row = kFirstRow})
            .values();
    for (int64_t n = 0; n < static_cast<int64_t>(y.size()); ++n) {
      const int64_t j = n % keys, h = n / keys % kHeads, i = n / width % kQueries, b = n / width / kQueries;
      const int64_t index = (((kFirstRow + b) * kHeads + h) * kQueries + i) * round_up(keys, 8) + j;
      const bool keep = kRandom.half(static_cast<uint64_t>(index)) >= dropout_threshold(kP);
      const double weight = keep ? 1 / (1 - dropout_rate(kP)) / static_cast<double>(keys) : 0.0;
      ASSERT_NEAR(y[static_cast<size_t>(n)], weight, weight * kBf16Epsilon) << n;
    }
  }
}

TEST_F(AttentionOnCuda, TakesTheNumberOfTheStepFromTheDevice) {
  const Buffer step(sizeof(uint64_t), Device::cuda, MemoryCategory::workspace);
  cuda::copy_to_device(step.data(), &kRandom.step.value, sizeof(uint64_t));
  RandomStream on_device = kRandom;
  on_device.step = DeviceScalar<uint64_t>::at(static_cast<const uint64_t*>(step.data()));
  for (const int64_t size : {5, 16}) {
    const Inputs in = random_inputs({1, 40, size}, {1, 40, size}, DType::bf16, Device::cuda);
    expect_same_bits(run(in, {.dropout = 0.4, .random = kRandom}), run(in, {.dropout = 0.4, .random = on_device}));
  }
}

TEST_F(AttentionOnCuda, DropoutOfOneGivesExactZeros) {
  for (const int64_t size : {5, 16}) {
    const Inputs in = random_inputs({2, 33, size}, {2, 33, size}, DType::bf16, Device::cuda);
    for (const double p : {1.0, 1 - 0x1p-18}) {
      const Result r = run(in, {.dropout = p, .random = kRandom});
      for (const Values* values : {&r.y, &r.dq, &r.dk, &r.dv}) expect_zeros(*values);
    }
  }
}

TEST_F(AttentionOnCuda, ThereMayBeNoKeyQueryOrSequence) {
  for (const int64_t size : {5, 16}) {
    for (const auto& [batch, queries, keys] : {std::tuple(2, 3, 0), std::tuple(2, 0, 3), std::tuple(0, 3, 3)}) {
      const Inputs in = random_inputs({batch, queries, size}, {batch, keys, size}, DType::bf16, Device::cuda);
      const Result r = run(in, {});
      for (const Values* values : {&r.y, &r.dq, &r.dk, &r.dv}) {
        for (const double v : *values) EXPECT_EQ(v, 0.0);
      }
    }
  }
}

// One head of a forward below the operation, where its log-sum-exp shows; `offset` elements into its memory.
struct OneHead {
  int64_t size, queries, keys;
  Tensor q, k, y, lse;
  AttentionForward forward;

  OneHead(DType dtype, int64_t size_, Device device, int64_t offset = 0) : size(size_), queries(70), keys(66) {
    const auto make = [&](const char* name, int64_t rows) {
      return random(name, {1, rows + 1, size}, dtype).to(device);
    };
    q = make("q", queries);
    k = make("k", keys);
    y = make("y", queries);
    lse = empty({1, 1, queries}, DType::f32, device);
    const auto heads = [&](const Tensor& t) {
      return ConstHeads{static_cast<const char*>(t.ref().data) + offset * size_bytes(dtype), t.numel(), size, size};
    };
    forward = {.problem = {.dtype = dtype,
                           .batch = 1,
                           .queries = queries,
                           .keys = keys,
                           .heads = 1,
                           .kv_heads = 1,
                           .head_size = size},
               .y = {y.ref().data, y.numel(), size, size},
               .lse = lse.ref(),
               .q = heads(q),
               .k = heads(k),
               .v = heads(k)};
  }
};

TEST_F(AttentionOnCuda, KeepsTheSameLogSumExp) {
  for (const auto& [dtype, size] : {std::pair(DType::f32, 5), std::pair(DType::bf16, 5), std::pair(DType::bf16, 16)}) {
    const OneHead here(dtype, size, Device::cpu), there(dtype, size, Device::cuda);
    cpu::attention_forward(context(Device::cpu), here.forward);
    cuda::attention_forward(context(Device::cuda), there.forward);
    const Values want = here.lse.values(), got = there.lse.values();
    for (size_t i = 0; i < want.size(); ++i) {
      if (i < 4) {  // the first queries see no key
        EXPECT_EQ(got[i], std::numeric_limits<double>::infinity());
        EXPECT_EQ(want[i], got[i]);
      } else {
        EXPECT_NEAR(got[i], want[i], kF32 * std::max(1.0, std::abs(want[i])));
      }
    }
  }
}

TEST_F(AttentionOnCuda, RunsOnTensorCoresWhereItCan) {
  const auto path = [](DType dtype, int64_t size, int64_t offset = 0) {
    return cuda::attention_path(OneHead(dtype, size, Device::cuda, offset).forward);
  };
  EXPECT_EQ(path(DType::bf16, 8), cuda::AttentionPath::tensor_cores);
  EXPECT_EQ(path(DType::bf16, 128, 8), cuda::AttentionPath::tensor_cores);
  EXPECT_EQ(path(DType::bf16, 136), cuda::AttentionPath::generic);
  EXPECT_EQ(path(DType::bf16, 12), cuda::AttentionPath::generic);
  EXPECT_EQ(path(DType::bf16, 64, 4), cuda::AttentionPath::generic);
  EXPECT_EQ(path(DType::f32, 64), cuda::AttentionPath::generic);
}

// Rows that begin between multiples of 16 and of 8 bytes.
TEST_F(AttentionOnCuda, TakesRowsThatAreNotAligned) {
  for (const int64_t offset : {1, 2, 4}) {
    const OneHead here(DType::bf16, 16, Device::cpu, offset), there(DType::bf16, 16, Device::cuda, offset);
    cpu::attention_forward(context(Device::cpu), here.forward);
    cuda::attention_forward(context(Device::cuda), there.forward);
    expect_close(there.y.values(), here.y.values(), kBf16Epsilon, "y");
  }
}

TEST_F(AttentionOnCuda, RefusesHeadsTooLarge) {
  const Tensor x = full({1, 2, 257}, DType::f32, 1.0, Device::cuda);
  try {
    attention(x, x, x, {});
    ADD_FAILURE() << "it took heads of 257";
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 256"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heed::test
