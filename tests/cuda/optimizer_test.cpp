// Optimizers and the norm of gradients on CUDA, held against the same in f64 on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "optim/adamw.hpp"
#include "optim/grad_clip.hpp"
#include "optim/sgd.hpp"
#include "optim/weight_average.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

enum class Kind { adamw, sgd, momentum };

class OptimizerOnCuda : public test::CudaTest, public testing::WithParamInterface<Kind> {
 protected:
  static std::unique_ptr<Optimizer> make(std::vector<ParameterSpan> spans) {
    const double momentum = GetParam() == Kind::momentum ? 0.8 : 0.0;
    if (GetParam() != Kind::adamw) {
      return std::make_unique<Sgd>(std::move(spans), SgdOptions{.momentum = momentum, .weight_decay = 0.2});
    }
    return std::make_unique<AdamW>(std::move(spans), AdamWOptions{.beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.3});
  }
  // The n elements from `offset` on, between elements that nobody may touch.
  static ParameterSpan span_on_cuda(const std::vector<double>& weights, bool decay, int64_t offset = 0) {
    const auto n = static_cast<int64_t>(weights.size());
    const auto make_part = [&] {
      return full({offset + n + 3}, DType::f32, 77.0, Device::cuda).slice(offset, Shape{n});
    };
    const ParameterSpan span{make_part(), make_part(), decay};
    copy_elements_to(span.weights.ref(), from_values({n}, DType::f32, weights));
    return span;
  }
  static void set(const Tensor& tensor, const std::vector<double>& values) {
    copy_elements_to(tensor.ref(), from_values(tensor.shape(), DType::f32, values));
  }
  static Tensor on_device(const StepState& state) {
    const Tensor memory = empty({static_cast<int64_t>(sizeof state / sizeof(double))}, DType::f64, Device::cuda);
    copy_memory(memory.ref().data, Device::cuda, &state, Device::cpu, sizeof state);
    return memory;
  }
  static StepState* pointer(const Tensor& memory) { return static_cast<StepState*>(memory.ref().data); }
};

TEST_P(OptimizerOnCuda, FollowsF64OnTheCpu) {
  for (const int64_t n : {1, 3, 4, 1023, 1025, 4100}) {
    for (const int64_t offset : {0, 1}) {
      SCOPED_TRACE(testing::Message() << n << " from " << offset);
      const bool decay = offset == 0;
      const std::vector<double> start = random_values(n, 0);
      const ParameterSpan span = span_on_cuda(start, decay, offset), exact = make_span(DType::f64, start, start, decay);
      const auto optimizer = make({span}), plain = make({exact});
      const int num_steps = n < 100 ? 8 : 3;  // elements are independent: many steps of few, few steps of many
      for (int step = 1; step <= num_steps; ++step) {
        const double learning_rate = 0.1 / step, scale = step % 2 == 0 ? 1.0 : 0.37;
        const std::vector<double> gradients = random_values(n, static_cast<uint32_t>(step));
        set(span.gradients, gradients);
        set_gradients(exact, gradients);
        optimizer->step(learning_rate, scale);
        plain->step(learning_rate, scale);
        ASSERT_EQ(span.gradients.values(), gradients);
      }
      const auto expect_close = [&](const Tensor& got, const Tensor& want, double least) {
        const std::vector<double> found = got.values(), expected = want.values();
        double largest = least;
        for (const double value : expected) largest = std::max(largest, std::abs(value));
        const double bound = num_steps * test::kF32StepRoundings * test::kF32Epsilon * largest;
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          ASSERT_NEAR(found[i], expected[i], bound) << i;
        }
      };
      expect_close(span.weights, exact.weights, 1.0);
      for (size_t i = 0; i < plain->state().size(); ++i) {
        expect_close(optimizer->state()[i].second, plain->state()[i].second, 0.0);
      }
    }
  }
}

TEST_P(OptimizerOnCuda, TouchesItsSpanAlone) {
  for (const int64_t first : {8, 9}) {  // moved in vectors, and element by element
    const Tensor all = full({40}, DType::f32, 5.0, Device::cuda), gradients = full({40}, DType::f32, 1.0, Device::cuda);
    const Tensor copies = full({40}, DType::bf16, 5.0, Device::cuda);
    make({{.weights = all.slice(first, {22}),
           .gradients = gradients.slice(first, {22}),
           .decay = true,
           .copies = copies.slice(first, {22})}})
        ->step(0.1, 1);
    const std::vector<double> values = all.values();
    EXPECT_EQ(copies.values(), rounded_to_bf16(values));
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(values[static_cast<size_t>(i)] == 5, i < first || i >= first + 22) << i << " from " << first;
    }
  }
}

TEST_P(OptimizerOnCuda, AStateOnTheDeviceGivesTheSameBits) {
  const std::vector<double> start = random_values(1001, 1), gradients = random_values(1001, 2);
  const ParameterSpan a = span_on_cuda(start, true), b = span_on_cuda(start, true);
  set(a.gradients, gradients);
  set(b.gradients, gradients);
  const auto by_host = make({a}), by_device = make({b});
  for (int64_t step = 1; step <= 3; ++step) {
    const double learning_rate = 0.1 / static_cast<double>(step);
    by_host->step(learning_rate, 0.7);
    const Tensor state = on_device({.learning_rate = learning_rate,
                                    .optimizer_step = step,
                                    .bias_correction = by_device->bias_correction(step),
                                    .gradient_scale = 0.7,
                                    .is_valid = 1});
    by_device->restore_steps(0);  // as in a captured step: the host's count is that of the recording
    by_device->step(pointer(state));
    EXPECT_EQ(a.weights.values(), b.weights.values());
  }
}

TEST_P(OptimizerOnCuda, NothingChangesWhereTheStepIsNotValid) {
  const std::vector<double> start = random_values(37, 3);
  const ParameterSpan span = span_on_cuda(start, true);
  const auto optimizer = make({span});
  const Tensor memory = on_device({.learning_rate = 0.1, .optimizer_step = 1, .is_valid = 0});
  optimizer->step(pointer(memory));
  EXPECT_EQ(span.weights.values(), start);
  for (const auto& [name, state] : optimizer->state()) EXPECT_EQ(state.values(), std::vector<double>(37, 0.0)) << name;
}

TEST_P(OptimizerOnCuda, AveragesTheWeightsAsTheCpu) {
  for (const int64_t n : {1, 3, 4, 1023, 1025}) {
    const std::vector<double> start = random_values(n, 0);
    const ParameterSpan span = span_on_cuda(start, true);
    const auto optimizer = make({span});
    optimizer->average_weights(0.4);
    const Tensor average = optimizer->state().back().second;
    EXPECT_EQ(average.values(), start);
    std::vector<double> expected = start;
    for (int64_t step = 1; step <= 8; ++step) {  // 0.4 is reached in step 5
      set(span.gradients, random_values(n, static_cast<uint32_t>(step)));
      const Tensor state = on_device({.learning_rate = 0.1,
                                      .optimizer_step = step,
                                      .bias_correction = optimizer->bias_correction(step),
                                      .gradient_scale = 1,
                                      .is_valid = step == 3 ? 0 : 1});
      optimizer->step(pointer(state));
      const double rate = step == 3 ? 0 : weight_average_rate(0.4, step);
      const std::vector<double> weights = span.weights.values(), found = average.values();
      for (size_t i = 0; i < weights.size(); ++i) {
        expected[i] += rate * (weights[i] - expected[i]);
        const double bound = 8 * test::kF32Epsilon * std::max(1.0, std::abs(expected[i]));
        ASSERT_NEAR(found[i], expected[i], bound) << "step " << step << ", " << i;
      }
    }
  }
}

TEST_P(OptimizerOnCuda, SwapsTheWeightsWithTheirAverage) {
  const ParameterSpan span = span_on_cuda(random_values(1025, 0), true, 1);
  const auto optimizer = make({span});
  optimizer->average_weights(0.9);
  set(span.gradients, random_values(1025, 1));
  optimizer->step(0.1, 1);
  const Tensor average = optimizer->state().back().second;
  const std::vector<double> weights = span.weights.values(), averaged = average.values();
  optimizer->swap_weights_with_average();
  EXPECT_EQ(span.weights.values(), averaged);
  EXPECT_EQ(average.values(), weights);
}

TEST_P(OptimizerOnCuda, NanAndInfShow) {
  for (const double poison : {kNan, kInf}) {
    const ParameterSpan span = span_on_cuda(std::vector<double>(9, 1.0), false);
    std::vector<double> gradients(9, 1.0);
    gradients[5] = poison;
    set(span.gradients, gradients);
    make({span})->step(0.1, 1);
    const std::vector<double> weights = span.weights.values();
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(std::isfinite(weights[i]), i != 5) << i;
  }
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"adamw", "sgd", "momentum"};
  return kNames[static_cast<size_t>(kind)];
}
INSTANTIATE_TEST_SUITE_P(All, OptimizerOnCuda, testing::Values(Kind::adamw, Kind::sgd, Kind::momentum),
                         [](const auto& one) { return name_of(one.param); });

class GlobalNormOnCuda : public test::CudaTest {
 protected:
  static ParameterSpan with_gradients(const std::vector<double>& values, int64_t offset = 0) {
    const Shape shape{static_cast<int64_t>(values.size())};
    const Tensor gradients = full({offset + shape.numel()}, DType::f32, kNan, Device::cuda).slice(offset, shape);
    copy_elements_to(gradients.ref(), from_values(shape, DType::f32, values));
    return {full(shape, DType::f32, 99.0, Device::cuda), gradients, true};
  }
};

TEST_F(GlobalNormOnCuda, IsThatOfAllSpansTogether) {
  EXPECT_EQ(global_norm({with_gradients({3}), with_gradients({0, -4})}), 5.0);
  EXPECT_EQ(global_norm({with_gradients({})}), 0.0);
}

TEST_F(GlobalNormOnCuda, IsAccurateAtAllSizes) {
  // One vector and less, one block, some, and more stretches than there are blocks.
  for (const int64_t n : {1, 3, 4, 5, 1023, 4096, 4099, 20'001, 4'200'003}) {
    const std::vector<double> values =
        n > 1'000'000 ? std::vector<double>(static_cast<size_t>(n), 0.5) : random_values(n, 1);
    long double sum = 0;
    for (const double v : values) sum += static_cast<long double>(v) * v;
    const double want = static_cast<double>(std::sqrt(sum));
    for (const int64_t offset : {0, 3}) {
      const ParameterSpan span = with_gradients(values, offset);
      const double norm = global_norm({span});
      EXPECT_NEAR(norm, want, test::kF64 * want) << n << " from " << offset;
      EXPECT_EQ(global_norm({span}), norm);
    }
  }
}

TEST_F(GlobalNormOnCuda, NeitherOverflowsNorUnderflows) {
  EXPECT_NEAR(global_norm({with_gradients({3e38, 1})}) / 3e38, 1.0, test::kSixDigits);
  EXPECT_NEAR(global_norm({with_gradients({3e-38, 4e-38})}) / 5e-38, 1.0, test::kSixDigits);
}

TEST_F(GlobalNormOnCuda, ShowsNanAndInfAtAnyPlace) {
  for (const size_t n : {size_t{1}, size_t{37}, size_t{5'000}}) {
    for (const size_t place : {size_t{0}, n / 2, n - 1}) {
      std::vector<double> values(n, 1.0);
      values[place] = kNan;
      EXPECT_TRUE(std::isnan(global_norm({with_gradients({1}), with_gradients(values)})));
      values[place] = -kInf;
      EXPECT_EQ(global_norm({with_gradients({1}), with_gradients(values)}), kInf);
    }
  }
}

}  // namespace
}  // namespace heed::optim
