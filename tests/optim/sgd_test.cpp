#include "optim/sgd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/cpu/parallel.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using test::kF32Epsilon;
using test::kF32StepRoundings;
using test::kF64;
using test::kSixDigits;

void expect_the_plain_formula(int64_t n, DType dtype, bool decay, double momentum) {
  std::vector<double> plain = random_values(n, 0), v(plain.size(), 0.0);
  const ParameterSpan span = make_span(dtype, plain, plain, decay);
  Sgd optimizer({span}, {.momentum = momentum, .weight_decay = 0.2});
  double largest = 1;
  for (int step = 1; step <= 100; ++step) {
    const double lr = 1.0 / step, scale = step % 2 == 0 ? 1.0 : 0.37;
    const std::vector<double> gradients = random_values(n, static_cast<uint32_t>(step));
    set_gradients(span, gradients);
    optimizer.step(lr, scale);
    for (size_t i = 0; i < plain.size(); ++i) {
      v[i] = momentum * v[i] + scale * gradients[i];
      if (decay) plain[i] -= lr * 0.2 * plain[i];
      plain[i] -= lr * v[i];
      largest = std::max({largest, std::abs(plain[i]), std::abs(v[i])});
    }
  }
  const double bound = largest * (dtype == DType::f64 ? kF64 : 100 * kF32StepRoundings * kF32Epsilon);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(span.weights.values()[i], plain[i], bound) << i;
  for (const auto& [name, state] : optimizer.state()) {
    for (size_t i = 0; i < v.size(); ++i) ASSERT_NEAR(state.values()[i], v[i], bound) << name << " " << i;
  }
}

TEST(Sgd, FollowsThePlainFormulaOverAHundredSteps) {
  for (const int64_t n : {1, 3, 1023, 1025}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const bool decay : {false, true}) {
        for (const double momentum : {0.0, 0.7}) {
          SCOPED_TRACE(testing::Message() << n << " " << name(dtype) << (decay ? " decayed, " : ", ") << momentum);
          expect_the_plain_formula(n, dtype, decay, momentum);
        }
      }
    }
  }
}

// From torch 2.15, f64:
//   w = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
//   optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
//   for gradient in ([0.5, 1.0], [-0.25, 2.0], [4.0, -1.0]):
//       w.grad = torch.tensor(gradient, dtype=torch.float64)
//       optimizer.step()
TEST(Sgd, TakesTheStepsOfTorch) {
  const ParameterSpan span = make_span(DType::f64, {1, -2}, {0, 0}, false);
  Sgd optimizer({span}, {.momentum = 0.9});
  for (const std::vector<double>& gradients : {std::vector<double>{0.5, 1}, {-0.25, 2}, {4, -1}}) {
    set_gradients(span, gradients);
    optimizer.step(0.1, 1);
  }
  EXPECT_NEAR(span.weights.values()[0], 0.512, kF64);
  EXPECT_NEAR(span.weights.values()[1], -2.551, kF64);
}

TEST(Sgd, WithoutGradientsOnlyDecayedWeightsShrink) {
  const ParameterSpan decayed = make_span(DType::f32, {2, -3}, {0, 0}, true);
  const ParameterSpan kept = make_span(DType::f32, {2, -3}, {0, 0}, false);
  Sgd optimizer({decayed, kept}, {.weight_decay = 0.1});
  for (int step = 0; step < 10; ++step) optimizer.step(0.1, 1);
  EXPECT_NEAR(decayed.weights.values()[0], 2 * 0.904382, 2 * kSixDigits);
  EXPECT_NEAR(decayed.weights.values()[1], -3 * 0.904382, 3 * kSixDigits);
  EXPECT_EQ(kept.weights.values(), (std::vector<double>{2, -3}));
  EXPECT_EQ(optimizer.steps(), 10);
}

TEST(Sgd, SameBitsForAnyThreads) {
  const int64_t n = 5 * cpu::kElementwiseGrain + 13;
  const int threads = cpu::max_threads();
  std::vector<double> first;
  for (const int count : {1, 2, 3}) {
    cpu::set_max_threads(count);
    const ParameterSpan span = make_span(DType::f32, random_values(n, 4), random_values(n, 5), true);
    Sgd optimizer({span}, {.momentum = 0.9, .weight_decay = 0.3});
    for (int step = 0; step < 3; ++step) optimizer.step(0.01, 0.7);
    if (first.empty()) first = span.weights.values();
    EXPECT_EQ(span.weights.values(), first) << count << " threads";
  }
  cpu::set_max_threads(threads);
}

TEST(Sgd, KeepsAVectorForEachSpanWithMomentumAlone) {
  const ParameterSpan a = make_span(DType::f32, {1}, {1}, true), b = make_span(DType::f32, {1, 2}, {1, 2}, false);
  EXPECT_TRUE(Sgd({a, b}, {}).state().empty());
  const Sgd optimizer({a, b}, {.momentum = 0.5});
  ASSERT_EQ(optimizer.state().size(), 2u);
  EXPECT_EQ(optimizer.state()[0].first, "v.0");
  EXPECT_EQ(optimizer.state()[1].first, "v.1");
  EXPECT_EQ(optimizer.state()[1].second.values(), (std::vector<double>{0, 0}));
}

TEST(Sgd, RefusesOptionsOutOfRange) {
  const ParameterSpan span = make_span(DType::f32, {1}, {1}, true);
  for (const double momentum : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(Sgd({span}, {.momentum = momentum}), ValueError) << momentum;
  }
  EXPECT_THROW(Sgd({span}, {.weight_decay = -0.1}), ValueError);
  EXPECT_THROW(Sgd({span}, {.weight_decay = std::numeric_limits<double>::infinity()}), ValueError);
}

}  // namespace
}  // namespace heed::optim
