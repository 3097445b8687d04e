// Compares linear_cross_entropy, in one chunk and in several, and its fused backward with the separate operations.
// EveryOp tests its gradients against finite differences, and its errors.
#include "autograd/ops/linear_cross_entropy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/tape.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;
using Options = LinearCrossEntropyOptions;

constexpr int64_t kRows = 37, kWidth = 12, kVocab = 65;

struct Inputs {
  Tensor x, weight, targets;
};

Inputs inputs(DType dtype) {
  Inputs in{.x = draw(normal("x", {kRows, kWidth}), dtype, 1).set_requires_grad(true),
            .weight = draw(normal("weight", {kVocab, kWidth}), dtype, 2).set_requires_grad(true),
            .targets = draw(tokens("targets", {kRows}, kVocab), dtype, 3)};
  in.targets.data<int32_t>()[5] = in.targets.data<int32_t>()[36] = -1;
  return in;
}

// Loss, and the gradients of x and weight.
using Outcome = std::vector<Values>;

template <class F>
Outcome outcome(DType dtype, F run) {
  const Inputs in = inputs(dtype);
  const Tensor loss = run(in, scale(in.x, 0.5));  // x is then the result of an operation, not a leaf
  return {{loss.item()}, in.x.grad().values(), in.weight.grad().values()};
}

Outcome separate(DType dtype, const Options& options) {
  return outcome(dtype, [&](const Inputs& in, const Tensor& x) {
    Tensor logits = linear(x, in.weight, Tensor());
    if (options.softcap > 0) logits = softcap(logits, options.softcap);
    Tensor loss = cross_entropy(logits, in.targets, options.cross_entropy);
    backward(loss);
    return loss;
  });
}

Outcome fused(DType dtype, const Options& options) {
  return outcome(dtype, [&](const Inputs& in, const Tensor& x) {
    Tensor loss = linear_cross_entropy(x, in.weight, in.targets, options);
    backward(loss);
    return loss;
  });
}

Outcome at_once(DType dtype, const Options& options) {
  return outcome(dtype, [&](const Inputs& in, const Tensor& x) {
    return linear_cross_entropy_and_backward(x, in.weight, in.targets, options);
  });
}

// Options for chunks of 8 rows.
Options in_chunks(DType dtype, double softcap) {
  return {.softcap = softcap, .chunk_bytes = 8 * kVocab * size_bytes(dtype) * (softcap > 0 ? 2 : 1)};
}

TEST(LinearCrossEntropy, OneChunkHasTheBitsOfTheSeparateOperations) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const double softcap : {0.0, 3.0}) {
      for (const double denominator : {0.0, 50.0}) {
        const Options options{.cross_entropy = {.denominator = denominator}, .softcap = softcap};
        const Outcome expected = separate(dtype, options);
        EXPECT_EQ(fused(dtype, options), expected) << name(dtype) << " " << softcap << " " << denominator;
        EXPECT_EQ(at_once(dtype, options), expected) << name(dtype) << " " << softcap << " " << denominator;
      }
    }
  }
}

TEST(LinearCrossEntropy, ChunksDifferByRounding) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double softcap : {0.0, 3.0}) {
      const Outcome expected = separate(dtype, {.softcap = softcap});
      const Outcome found = fused(dtype, in_chunks(dtype, softcap));
      EXPECT_EQ(at_once(dtype, in_chunks(dtype, softcap)), found) << name(dtype) << " " << softcap;
      for (size_t part = 0; part < expected.size(); ++part) {
        double largest = 0, difference = 0;
        for (size_t i = 0; i < expected[part].size(); ++i) {
          largest = std::max(largest, std::abs(expected[part][i]));
          difference = std::max(difference, std::abs(expected[part][i] - found[part][i]));
        }
        EXPECT_LE(difference, largest * (dtype == DType::f32 ? kMicroBatchGradient : kKvCacheF64))
            << name(dtype) << " " << softcap << " " << part;
      }
    }
  }
}

TEST(LinearCrossEntropy, AddsToTheGradientsOfATiedWeight) {
  const Inputs in = inputs(DType::f64);
  const Tensor ids = draw(tokens("ids", {kRows}, kVocab), DType::f64, 4);
  const auto gradient = [&](auto run) {
    in.weight.set_grad(full(in.weight.shape(), DType::f64, 2));
    for (int pass = 0; pass < 2; ++pass) run(embedding(in.weight, ids));
    return in.weight.grad().values();
  };
  const Values expected =
      gradient([&](const Tensor& x) { backward(cross_entropy(linear(x, in.weight, Tensor()), in.targets)); });
  const Options options = in_chunks(DType::f64, 0);
  const Values found =
      gradient([&](const Tensor& x) { linear_cross_entropy_and_backward(x, in.weight, in.targets, options); });
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], kF64) << i;
}

TEST(LinearCrossEntropy, OneGradientAlone) {
  const Options options = in_chunks(DType::f64, 0);
  const Outcome both = at_once(DType::f64, options);
  Inputs in = inputs(DType::f64);
  in.weight.set_requires_grad(false);
  linear_cross_entropy_and_backward(scale(in.x, 0.5), in.weight, in.targets, options);
  EXPECT_EQ(in.x.grad().values(), both[1]);
  EXPECT_FALSE(in.weight.grad());
  in = inputs(DType::f64);
  in.x.set_requires_grad(false);
  linear_cross_entropy_and_backward(scale(in.x, 0.5), in.weight, in.targets, options);
  EXPECT_EQ(in.weight.grad().values(), both[2]);
}

TEST(LinearCrossEntropy, NoRowsAndNoTargets) {
  const Tensor weight = full({5, 3}, DType::f32, 1).set_requires_grad(true);
  for (const int64_t rows : {0, 2}) {
    weight.set_grad(full({5, 3}, DType::f32, std::numeric_limits<double>::quiet_NaN()));
    weight.reset_grad();
    const Tensor x = full({rows, 3}, DType::f32, 1),
                 targets = from_tokens({rows}, std::vector<int32_t>(static_cast<size_t>(rows), -1));
    EXPECT_EQ(linear_cross_entropy_and_backward(x, weight, targets).item(), 0);
    EXPECT_EQ(weight.grad().values(), Values(15, 0));
  }
}

TEST(LinearCrossEntropy, LossesOfTheTargets) {
  const Inputs in = inputs(DType::f32);
  const Options options{
      .cross_entropy = {.denominator = 1.0}, .losses = empty({kRows}, DType::f64), .softcap = 3, .chunk_bytes = 3000};
  const Tensor all = linear_cross_entropy(in.x, in.weight, in.targets, options);
  const Values losses = options.losses.values();
  double sum = 0;
  for (const double loss : losses) sum += loss;
  EXPECT_EQ(static_cast<float>(sum), all.item());
  EXPECT_EQ(losses[5], 0);
  const Tensor one = in.x.slice(7 * kWidth, {kWidth});
  EXPECT_NEAR(losses[7], linear_cross_entropy(one, in.weight, in.targets.slice(7, {}), {.softcap = 3}).item(),
              kF32 * losses[7]);
}

// With the vocabulary of GPT-2 and a narrow x, all logits would take 103 MB.
TEST(LinearCrossEntropy, ExtraMemoryIsBounded) {
  constexpr int64_t kManyRows = 512, kColumns = 50257, kNarrow = 8;
  for (const double softcap : {0.0, 30.0}) {
    const Tensor x = full({kManyRows, kNarrow}, DType::f32, 0.5).set_requires_grad(true);
    const Tensor weight = full({kColumns, kNarrow}, DType::f32, 0.25).set_requires_grad(true);
    weight.set_grad(zeros(weight.shape(), DType::f32));
    const Tensor targets = from_tokens({kManyRows}, std::vector<int32_t>(kManyRows, 7));
    reset_memory_peaks(Device::cpu);
    const int64_t before = memory_report(Device::cpu).total.current_bytes;
    const double loss = linear_cross_entropy_and_backward(x, weight, targets, {.softcap = softcap}).item();
    EXPECT_NEAR(loss, std::log(static_cast<double>(kColumns)), kF32 * loss);
    EXPECT_LE(memory_report(Device::cpu).total.peak_bytes - before, 64'000'000) << softcap;
  }
}

// A model's backward runs inside the call: it must not hold the memory of x meanwhile, if the caller has moved it
// there.
TEST(LinearCrossEntropy, BackwardBelowRunsWithoutX) {
  const Inputs in = inputs(DType::f32);
  int64_t bytes = 0;
  const auto bytes_below = [&](bool keep) {
    Output y(in.x.shape(), DType::f32, Device::cpu);
    std::fill_n(static_cast<float*>(y.ref().data), y.ref().shape.numel(), 0.5f);
    Tensor x = record("probe", std::move(y), {in.x},
                      [&](const Tensor&, Gradients&) { bytes = memory_report(Device::cpu).total.current_bytes; });
    const Tensor kept = keep ? x : Tensor();
    linear_cross_entropy_and_backward(std::move(x), in.weight, in.targets);
    return bytes;
  };
  bytes_below(true);  // allocates the gradient of the weight
  EXPECT_GE(bytes_below(true) - bytes_below(false), kRows * kWidth * size_bytes(DType::f32));
}

TEST(LinearCrossEntropy, ErrorsOfBackwardLeaveNoGradient) {
  const Inputs in = inputs(DType::f32);
  const auto run = [&](const Tensor& x) { linear_cross_entropy_and_backward(x, in.weight, in.targets); };
  expect_error<GraphError>(
      [&] {
        const NoGradGuard no_grad;
        run(in.x);
      },
      "nothing below the result requires a gradient");
  Tensor used = scale(in.x, 2);
  backward(scale(used, 1), full(used.shape(), DType::f32, 1));
  expect_error<GraphError>([&] { run(used); }, "the graph of 'scale' was freed");
  used = Tensor();
  in.targets.data<int32_t>()[9] = 65;
  expect_error<ValueError>([&] { run(in.x); }, "cross_entropy: target 65 at position (9), it must be from 0 to 64");
  EXPECT_FALSE(in.weight.grad());
  EXPECT_EQ(live_nodes(), 0);
}

TEST(LinearCrossEntropy, AnomalyModeNamesIt) {
  set_detect_anomaly(true);
  const Inputs in = inputs(DType::f32);
  in.weight.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  expect_error<DivergedError>([&] { linear_cross_entropy_and_backward(in.x, in.weight, in.targets); },
                              "linear_cross_entropy");
  set_detect_anomaly(false);
  EXPECT_FALSE(in.x.grad());
}

}  // namespace
}  // namespace heed::test
