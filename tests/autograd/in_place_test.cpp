// Gradients that take the memory of what was saved, and elements that are kept only where a backward wants them.
#include <gtest/gtest.h>

#include <functional>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/cross_entropy.hpp"
#include "autograd/ops/dropout.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/layer_norm.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

constexpr int64_t kRows = 33, kColumns = 65;

struct Form {
  const char* name;
  std::function<Tensor(const Tensor&)> run;
};

std::vector<Form> forms() {
  const auto layer_norm_of = [](const Tensor& x) {
    const Tensor weight = draw(normal("weight", {kColumns}, 1, 0.3), DType::f32, 3);
    return layer_norm(x, weight.set_requires_grad(true), Tensor());
  };
  const auto loss_of = [](const Tensor& x) {
    return cross_entropy(x, draw(tokens("targets", {kRows}, kColumns), DType::f32, 4));
  };
  return {{"gelu", gelu},
          {"gelu_erf", gelu_erf},
          {"silu", silu},
          {"relu", relu},
          {"relu2", relu2},
          {"layer_norm", layer_norm_of},
          {"cross_entropy", loss_of}};
}

struct Outcome {
  std::vector<double> gradient;
  int64_t more_bytes = 0;  // at the peak of backward
};

// The operation on a result of another one, whose handle is held on to or not.
Outcome run(const Form& form, bool hold) {
  const Tensor leaf = draw(normal("x", {kRows, kColumns}), DType::f32, 2);
  leaf.set_requires_grad(true).set_grad(zeros(leaf.shape(), leaf.dtype()));
  Tensor x = scale(leaf, 2);
  const std::vector<double> before = x.values();
  const Tensor y = form.run(x);
  if (!hold) x = Tensor();
  const Tensor dy = full(y.shape(), y.dtype(), 0.5);
  reset_memory_peaks(Device::cpu);
  const int64_t start = memory_report(Device::cpu).total.current_bytes;
  backward(y, dy);
  if (hold) {
    EXPECT_EQ(x.values(), before) << form.name << " wrote over a tensor that is held";
  }
  return {leaf.grad().values(), memory_report(Device::cpu).total.peak_bytes - start};
}

TEST(InPlace, SameGradientsInLessMemory) {
  for (const Form& form : forms()) {
    const Outcome apart = run(form, true), over = run(form, false);
    EXPECT_EQ(apart.gradient, over.gradient) << form.name;
    EXPECT_LE(over.more_bytes + kRows * kColumns * 4, apart.more_bytes) << form.name;
  }
}

TEST(InPlace, NotWhereAnotherOperationWantsTheElements) {
  const Tensor leaf = draw(normal("x", {kRows, kColumns}), DType::f32, 2).set_requires_grad(true);
  const auto gradient = [&](bool hold) {
    leaf.set_grad(Tensor());
    Tensor x = scale(leaf, 2);
    const Tensor held = hold ? x : Tensor();
    const Tensor y = mul(gelu(x), x);  // both keep x
    x = Tensor();
    backward(y, full(y.shape(), y.dtype(), 1));
    return leaf.grad().values();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// These save their result, not their input.
TEST(InPlace, NotOverAResultThatIsHeld) {
  const Tensor leaf = draw(normal("x", {kRows, kColumns}), DType::f32, 2).set_requires_grad(true);
  for (const Form& form : {Form{"tanh", [](const Tensor& x) { return tanh(x); }}, Form{"sigmoid", sigmoid},
                           Form{"exp", [](const Tensor& x) { return exp(x); }}}) {
    const auto gradient = [&](bool hold) {
      leaf.set_grad(Tensor());
      Tensor result = form.run(scale(leaf, 2));
      const Tensor held = hold ? result : Tensor();
      const std::vector<double> before = result.values();
      result = scale(result, 3);
      backward(result, full(result.shape(), result.dtype(), 1));
      if (hold) {
        EXPECT_EQ(held.values(), before) << form.name << " wrote over a tensor that is held";
      }
      return leaf.grad().values();
    };
    EXPECT_EQ(gradient(true), gradient(false)) << form.name;
  }
}

// An addition needs neither of its inputs for backward.
TEST(Tape, KeepsNoElementsThatNoBackwardWants) {
  const Tensor leaf = draw(normal("x", {1000}), DType::f32, 2).set_requires_grad(true);
  const int64_t before = memory_report(Device::cpu).total.current_bytes;
  Tensor x = leaf;
  for (int i = 0; i < 10; ++i) x = add(x, leaf);
  EXPECT_LE(memory_report(Device::cpu).total.current_bytes - before, 2 * 4096);
  backward(x, full(x.shape(), x.dtype(), 1));
  EXPECT_EQ(leaf.grad().values(), std::vector<double>(1000, 11));
}

}  // namespace
}  // namespace heed::test
