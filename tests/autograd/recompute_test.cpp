#include <gtest/gtest.h>

#include "autograd/ops/layer_norm.hpp"
#include "autograd/tape.hpp"
#include "tests/support/plain_ops.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

constexpr int64_t kRows = 6, kColumns = 33;

// A residual block like a model's: norm, product with a parameter, dropout.
struct Block {
  uint32_t number;
  Tensor weight, bias, factor;

  explicit Block(uint32_t number_)
      : number(number_),
        weight(leaf({kColumns}, some_values(kColumns, 3 * number), DType::f32)),
        bias(leaf({kColumns}, some_values(kColumns, 3 * number + 1), DType::f32)),
        factor(leaf({kRows, kColumns}, some_values(kRows * kColumns, 3 * number + 2), DType::f32)) {}

  Tensor operator()(const Tensor& x) const {
    const RandomStream stream{.seed = 1, .site = random_site(RandomDomain::test, number), .step = 3};
    return plus(x, masked(times(layer_norm(x, weight, bias), factor), stream));
  }
};

struct Outcome {
  Values loss;
  std::vector<Values> gradients;
};

Outcome train(bool recomputed, int blocks) {
  std::vector<Block> model;
  for (int i = 0; i < blocks; ++i) model.emplace_back(i + 1);
  const Tensor x = leaf({kRows, kColumns}, some_values(kRows * kColumns, 0), DType::f32);
  Tensor h = scaled(x, 1);
  for (const Block& block : model) {
    h = recomputed ? recompute([&block](const Tensors& in) { return block(in[0]); }, {h}) : block(h);
  }
  const Tensor loss = total(times(h, h));
  h = Tensor();
  backward(loss);
  Outcome outcome{.loss = loss.values(), .gradients = {x.grad().values()}};
  for (const Block& block : model) {
    for (const Tensor& parameter : {block.weight, block.bias, block.factor}) {
      outcome.gradients.push_back(parameter.grad().values());
    }
  }
  return outcome;
}

TEST(Recompute, SameBitsAsWithout) {
  set_memory_poison(true);
  for (const int blocks : {1, 2, 5}) {
    const Outcome plain = train(false, blocks), recomputed = train(true, blocks);
    EXPECT_EQ(plain.loss, recomputed.loss);
    ASSERT_EQ(plain.gradients.size(), recomputed.gradients.size());
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      EXPECT_EQ(plain.gradients[i], recomputed.gradients[i]) << "gradient " << i << " of " << blocks << " blocks";
    }
    EXPECT_NE(plain.gradients[1], Values(plain.gradients[1].size(), 0.0));
  }
  set_memory_poison(false);
  EXPECT_EQ(live_nodes(), 0);
}

int64_t activations_peak(bool recomputed) {
  reset_memory_peaks(Device::cpu);
  const auto use = [] { return memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::activations)]; };
  const int64_t before = use().current_bytes;
  const Tensor x = leaf({1 << 12}, some_values(1 << 12, 0));
  Tensor h = x;
  const auto block = [](const Tensors& in) {
    Tensor t = in[0];
    for (int i = 0; i < 6; ++i) t = times(t, t);
    return t;
  };
  for (int i = 0; i < 8; ++i) h = recomputed ? recompute(block, {h}) : block({h});
  const Tensor loss = total(h);
  h = Tensor();
  backward(loss);
  return use().peak_bytes - before;
}

TEST(Recompute, TakesLessMemory) {
  const int64_t plain = activations_peak(false), recomputed = activations_peak(true);
  // 48 tensors are kept without, 8 results of blocks and the inside of one with it.
  EXPECT_LT(2 * recomputed, plain) << recomputed << " bytes against " << plain;
}

TEST(Recompute, RunsTwiceOnlyForBackward) {
  int runs = 0, recorded_runs = 0;
  const Recomputed fn = [&](const Tensors& in) {
    ++runs;
    recorded_runs += grad_enabled() ? 1 : 0;
    return scaled(in[0], 2);
  };
  const Tensor x = leaf({2}, {1, 2});
  {
    const NoGradGuard no_grad;
    const Tensor y = recompute(fn, {x});
    EXPECT_EQ(y.values(), (Values{2, 4}));
    EXPECT_EQ(runs, 1);
    EXPECT_FALSE(y.requires_grad());
  }
  const Tensor y = recompute(fn, {x});
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(live_nodes(), 1);
  backward(y, full({2}, DType::f64, 1));
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(recorded_runs, 1);
  EXPECT_EQ(x.grad().values(), (Values{2, 2}));
}

TEST(Recompute, GradientsGoWhereTheyAreWanted) {
  const Tensor x = leaf({2}, {1, 2}), fixed = from_values({2}, DType::f64, {5, 7}), inside = leaf({2}, {10, 20});
  const Tensor counts = from_tokens({2}, {1, 2});
  const Recomputed fn = [&](const Tensors& in) {
    EXPECT_EQ(in[2].dtype(), DType::i32);
    return times(plus(in[0], in[1]), inside);
  };
  backward(recompute(fn, {x, fixed, counts}), full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{10, 20}));
  EXPECT_EQ(inside.grad().values(), (Values{6, 9}));
  EXPECT_FALSE(fixed.grad());
  // Only a parameter inside wants a gradient.
  backward(recompute(fn, {fixed, fixed, counts}), full({2}, DType::f64, 1));
  EXPECT_EQ(inside.grad().values(), (Values{16, 23}));
  // Nobody does.
  const Tensor y = recompute([](const Tensors& in) { return scaled(in[0], 2); }, {fixed});
  backward(y, full({2}, DType::f64, 1));
  EXPECT_FALSE(fixed.grad());
}

TEST(Recompute, AddsIntoPresetSlicesOfParameters) {
  const Tensor flat = full({4}, DType::f64, 100), x = leaf({2}, {1, 2}), parameter = leaf({2}, {10, 20});
  parameter.set_grad(flat.slice(1, {2}));
  const Recomputed fn = [&](const Tensors& in) { return times(in[0], parameter); };
  for (int pass = 1; pass <= 2; ++pass) {
    backward(recompute(fn, {x}), full({2}, DType::f64, 1));
    EXPECT_EQ(flat.values(), (Values{100, 100.0 + pass, 100.0 + 2 * pass, 100}));
  }
}

TEST(Recompute, InputUsedInsideAndOutside) {
  const Tensor x = leaf({2}, {3, -1});
  const Tensor h = scaled(x, 1);
  const Tensor y =
      plus(recompute([](const Tensors& in) { return plus(in[0], times(in[0], in[0])); }, {h}), scaled(h, 4));
  backward(y, full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{11, 3}));  // 1 + 2 x + 4
}

TEST(Recompute, SameInputTwiceAndTheInputAsResult) {
  const Tensor x = leaf({2}, {3, -1});
  backward(recompute([](const Tensors& in) { return times(in[0], in[1]); }, {x, x}), full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{6, -2}));
  backward(recompute([](const Tensors& in) { return in[0]; }, {x}), full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{7, -1}));
}

TEST(Recompute, Nests) {
  const Tensor x = leaf({2}, {3, -1}), parameter = leaf({2}, {2, 5});
  const Recomputed inner = [&](const Tensors& in) { return times(in[0], parameter); };
  const Recomputed outer = [&](const Tensors& in) { return recompute(inner, {recompute(inner, {in[0]})}); };
  backward(recompute(outer, {x}), full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{4, 25}));
  EXPECT_EQ(parameter.grad().values(), (Values{12, -10}));
  EXPECT_EQ(live_nodes(), 0);
}

TEST(Recompute, AnErrorInTheSecondRunLeavesAUsableState) {
  const Tensor x = leaf({2}, {3, -1});
  bool fail = false;
  {
    const Tensor y = recompute(
        [&](const Tensors& in) {
          require<ValueError>(!fail, "on purpose");
          return scaled(in[0], 2);
        },
        {x});
    fail = true;
    EXPECT_THROW(backward(y, full({2}, DType::f64, 1)), ValueError);
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_EQ(live_nodes(), 0);
  EXPECT_FALSE(x.grad());
}

}  // namespace
}  // namespace heed::test
