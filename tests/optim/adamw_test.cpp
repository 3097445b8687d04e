#include "optim/adamw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/cpu/parallel.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using test::kF32Drift;
using test::kF32Epsilon;
using test::kF32StepRoundings;
using test::kF64;
using test::kSixDigits;

// The formula as the paper has it, in plain double.
struct PlainAdamW {
  AdamWOptions options;
  bool decay = false;
  std::vector<double> weights, m, v;
  int t = 0;

  PlainAdamW(const AdamWOptions& o, bool decayed, std::vector<double> w)
      : options(o), decay(decayed), weights(std::move(w)), m(weights.size(), 0.0), v(weights.size(), 0.0) {}

  void step(double lr, double scale, const std::vector<double>& gradients) {
    ++t;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double g = gradients[i] * scale;
      if (decay) weights[i] -= lr * options.weight_decay * weights[i];
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(options.beta1, t)), v_hat = v[i] / (1 - std::pow(options.beta2, t));
      weights[i] -= lr * m_hat / (std::sqrt(v_hat) + options.eps);
    }
  }
};

double one_step(DType dtype, double weight, double gradient, double scale, const AdamWOptions& options) {
  const ParameterSpan span = make_span(dtype, {weight}, {gradient}, true);
  AdamW({span}, options).step(0.1, scale);
  return span.weights.item();
}

void expect_close(const Tensor& got, const std::vector<double>& want, double bound) {
  const std::vector<double> values = got.values();
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(values[i], want[i], bound) << "element " << i;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

TEST(AdamW, FirstStepCorrectsTheBiasAndDecaysBeforeTheMove) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    // 0.683772 without bias correction; 0.891 with the decay after the move.
    EXPECT_NEAR(one_step(dtype, 1, 0.5, 1, {.weight_decay = 0}), 0.9, kSixDigits);
    EXPECT_NEAR(one_step(dtype, 1, 0.5, 1, {.weight_decay = 0.1}), 0.89, kSixDigits);
  }
}

TEST(AdamW, AllSpansShareOneCount) {
  const ParameterSpan first = make_span(DType::f32, {1}, {0.5}, false),
                      second = make_span(DType::f32, {1}, {0.5}, true);
  AdamW optimizer({first, second}, {.weight_decay = 0});
  EXPECT_EQ(optimizer.steps(), 0);
  optimizer.step(0.1, 1);
  EXPECT_EQ(optimizer.steps(), 1);
  EXPECT_NEAR(first.weights.item(), 0.9, kSixDigits);
  EXPECT_NEAR(second.weights.item(), 0.9, kSixDigits);  // 0.925586 if the count were 2 here
}

TEST(AdamW, FollowsThePlainFormulaOverAHundredSteps) {
  for (const int64_t n : {1, 3, 1023, 1025}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const bool decay : {false, true}) {
        SCOPED_TRACE(testing::Message() << n << " " << name(dtype) << (decay ? " decayed" : ""));
        const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.3};
        const std::vector<double> weights = random_values(n, 0);
        const ParameterSpan span = make_span(dtype, weights, weights, decay);
        AdamW optimizer({span}, options);
        PlainAdamW plain(options, decay, weights);
        const int steps = 100;
        for (int step = 1; step <= steps; ++step) {
          const double lr = 0.1 / step, scale = step % 2 == 0 ? 1.0 : 0.37;
          const std::vector<double> gradients = random_values(n, static_cast<uint32_t>(step), 0.01);
          set_gradients(span, gradients);
          optimizer.step(lr, scale);
          plain.step(lr, scale, gradients);
        }
        const double bound = dtype == DType::f64 ? kF64 : steps * kF32StepRoundings * kF32Epsilon;
        expect_close(span.weights, plain.weights, bound * std::max(1.0, largest(plain.weights)));
        expect_close(optimizer.state()[0].second, plain.m, bound * largest(plain.m));
        expect_close(optimizer.state()[1].second, plain.v, bound * largest(plain.v));
      }
    }
  }
}

// Where beta or 1 - lr * weight_decay kept in f32 would drift away, and where g^2 - v would round g^2 away.
TEST(AdamW, F32KeepsItsDigitsForExtremeOptions) {
  for (const AdamWOptions& options :
       {AdamWOptions{.beta1 = 0, .beta2 = 0, .eps = 1e-12, .weight_decay = 0},
        AdamWOptions{.beta1 = 0.9, .beta2 = 0.99999, .eps = 1e-12, .weight_decay = 1e-3}}) {
    SCOPED_TRACE(options.beta2);
    const int64_t steps = 20'000;
    const ParameterSpan span = make_span(DType::f32, {1000}, {0}, true);
    AdamW optimizer({span}, options);
    PlainAdamW plain(options, true, {1000});
    const std::vector<double> gradients = random_values(steps, 12);
    for (int64_t step = 0; step < steps; ++step) {
      const double gradient = static_cast<float>(gradients[static_cast<size_t>(step)] * (step % 3 == 0 ? 1 : 1e-5));
      set_gradients(span, {gradient});
      optimizer.step(0.01, 1);
      plain.step(0.01, 1, {gradient});
    }
    const double drift = kF32Drift * kF32Epsilon * std::sqrt(static_cast<double>(steps));
    EXPECT_NEAR(span.weights.item(), plain.weights[0], drift * 1000);
    EXPECT_NEAR(optimizer.state()[1].second.item(), plain.v[0], drift * plain.v[0]);
  }
}

TEST(AdamW, WithoutGradientsOnlyDecayedWeightsShrink) {
  const std::vector<double> zeros(7, 0.0), weights = random_values(7, 1);
  const ParameterSpan decayed = make_span(DType::f32, weights, zeros, true);
  ParameterSpan kept = make_span(DType::f32, weights, zeros, false);
  kept.weight_decay_scale = 3;
  // Half the rate and twice the decay: their product is the same.
  ParameterSpan scaled = make_span(DType::f32, weights, zeros, true);
  scaled.learning_rate_scale = 0.5;
  scaled.weight_decay_scale = 2;
  AdamW optimizer({decayed, kept, scaled}, {.weight_decay = 0.1});
  for (int step = 0; step < 10; ++step) optimizer.step(0.1, 1);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(decayed.weights.values()[i], weights[i] * 0.904382, kSixDigits * std::abs(weights[i]));
  }
  EXPECT_EQ(scaled.weights.values(), decayed.weights.values());
  EXPECT_EQ(kept.weights.values(), weights);
}

TEST(AdamW, ScalingOnTheWayEqualsScaledGradients) {
  const std::vector<double> weights = random_values(100, 2), gradients = random_values(100, 3);
  std::vector<double> quarter = gradients;
  for (double& g : quarter) g /= 4;
  const ParameterSpan a = make_span(DType::f32, weights, gradients, true);
  const ParameterSpan b = make_span(DType::f32, weights, quarter, true);
  AdamW scaled({a}, {}), plain({b}, {});
  for (int step = 0; step < 3; ++step) {
    scaled.step(0.01, 0.25);
    plain.step(0.01, 1);
  }
  EXPECT_EQ(a.weights.values(), b.weights.values());
  EXPECT_EQ(a.gradients.values(), gradients) << "gradients are not to be changed";
}

TEST(AdamW, SameBitsForAnyThreads) {
  const int64_t n = 5 * cpu::kElementwiseGrain + 13;
  const int threads = cpu::max_threads();
  std::vector<double> first;
  for (const int count : {1, 2, 3}) {
    cpu::set_max_threads(count);
    const ParameterSpan span = make_span(DType::f32, random_values(n, 4), random_values(n, 5), true);
    AdamW optimizer({span}, {});
    for (int step = 0; step < 3; ++step) optimizer.step(0.01, 0.7);
    if (first.empty()) first = span.weights.values();
    EXPECT_EQ(span.weights.values(), first) << count << " threads";
  }
  cpu::set_max_threads(threads);
}

TEST(AdamW, NanAndInfShow) {
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const ParameterSpan span = make_span(DType::f32, {1, 1, 1}, {1, poison, 1}, false);
    AdamW optimizer({span}, {});
    optimizer.step(0.1, 1);
    EXPECT_TRUE(std::isnan(span.weights.values()[1]));
    EXPECT_NEAR(span.weights.values()[0], 0.9, kSixDigits);
    EXPECT_NEAR(span.weights.values()[2], 0.9, kSixDigits);
  }
}

TEST(AdamW, StateIsNamedZeroedAndAccounted) {
  set_memory_poison(true);
  const int64_t before =
      memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::optimizer)].current_bytes;
  {
    const ParameterSpan a = make_span(DType::f32, random_values(256, 6), random_values(256, 7), true);
    const ParameterSpan b = make_span(DType::f32, random_values(16, 8), random_values(16, 9), false);
    const AdamW optimizer({a, b}, {});
    std::vector<std::string> names;
    for (const auto& [name, tensor] : optimizer.state()) {
      names.push_back(name);
      EXPECT_EQ(largest(tensor.values()), 0.0) << name;
    }
    EXPECT_EQ(names, (std::vector<std::string>{"m.0", "v.0", "m.1", "v.1"}));
    EXPECT_EQ(optimizer.state()[0].second.shape(), a.weights.shape());
    EXPECT_EQ(optimizer.state()[3].second.shape(), b.weights.shape());
    const MemoryReport report = memory_report(Device::cpu);
    EXPECT_EQ(report.category[static_cast<size_t>(MemoryCategory::optimizer)].current_bytes - before,
              2 * (256 + 16) * 4);
  }
  EXPECT_EQ(memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::optimizer)].current_bytes, before);
  set_memory_poison(false);
}

TEST(AdamW, RefusesOptionsOutOfRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const ParameterSpan span = make_span(DType::f32, {1}, {1}, true);
  const auto refused = [&](const AdamWOptions& options, const std::string& key) {
    try {
      AdamW optimizer({span}, options);
      ADD_FAILURE() << key << " was accepted";
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  for (const double beta : {-0.1, 1.0, kNan}) {
    refused({.beta1 = beta}, "beta1");
    refused({.beta2 = beta}, "beta2");
  }
  for (const double eps : {0.0, -1e-8, kNan}) refused({.eps = eps}, "eps");
  for (const double decay : {-0.1, kNan}) refused({.weight_decay = decay}, "weight_decay");
}

}  // namespace
}  // namespace heed::optim
