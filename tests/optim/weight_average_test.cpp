#include "optim/weight_average.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "autograd/cpu/parallel.hpp"
#include "optim/adamw.hpp"
#include "optim/muon.hpp"
#include "optim/sgd.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<ParameterSpan>)>;

struct Kind {
  const char* name;
  Make make;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// The first 12 elements of the first span are the matrix of Muon.
const Kind kKinds[] = {
    {"adamw", [](auto spans) { return std::make_unique<AdamW>(std::move(spans), AdamWOptions{.weight_decay = 0.1}); }},
    {"sgd", [](auto spans) { return std::make_unique<Sgd>(std::move(spans), SgdOptions{}); }},
    {"momentum", [](auto spans) { return std::make_unique<Sgd>(std::move(spans), SgdOptions{.momentum = 0.8}); }},
    {"muon",
     [](auto spans) {
       const Tensor matrix = spans[0].gradients.slice(0, {3, 4});
       return std::make_unique<Muon>(std::move(spans), std::vector<Tensor>{matrix}, MuonOptions{});
     }},
};

class WeightAverage : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, WeightAverage, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param.name; });

std::vector<ParameterSpan> spans_of(DType dtype) {
  return {make_span(dtype, random_values(12, 0), random_values(12, 0), true),
          make_span(dtype, random_values(5, 1), random_values(5, 1), false)};
}

Tensor average_of(const Optimizer& optimizer, size_t span) {
  for (const auto& [name, tensor] : optimizer.state()) {
    if (name == "ema." + std::to_string(span)) return tensor;
  }
  throw ValueError("the state has no average");
}

void set_gradients_of(const std::vector<ParameterSpan>& spans, uint32_t step) {
  for (size_t i = 0; i < spans.size(); ++i) {
    set_gradients(spans[i], random_values(spans[i].gradients.numel(), 2 * step + static_cast<uint32_t>(i)));
  }
}

TEST_P(WeightAverage, FollowsThePlainFormulaAndLeavesTheWeightsAlone) {
  for (const double decay : {0.5, 0.999}) {  // reached in step 8, and not reached
    const std::vector<ParameterSpan> spans = spans_of(DType::f64), plain = spans_of(DType::f64);
    const auto optimizer = GetParam().make(spans), without = GetParam().make(plain);
    optimizer->average_weights(decay);
    std::vector<std::vector<double>> average;
    for (const ParameterSpan& span : spans) average.push_back(span.weights.values());
    for (size_t i = 0; i < spans.size(); ++i) EXPECT_EQ(average_of(*optimizer, i).values(), average[i]);
    for (uint32_t step = 1; step <= 20; ++step) {
      set_gradients_of(spans, step);
      set_gradients_of(plain, step);
      optimizer->step(0.05, 0.7);
      without->step(0.05, 0.7);
      const double d = std::min(decay, (1.0 + step) / (10.0 + step));
      for (size_t i = 0; i < spans.size(); ++i) {
        const std::vector<double> w = spans[i].weights.values(), found = average_of(*optimizer, i).values();
        EXPECT_EQ(w, plain[i].weights.values());
        for (size_t j = 0; j < w.size(); ++j) {
          average[i][j] = d * average[i][j] + (1 - d) * w[j];
          EXPECT_NEAR(found[j], average[i][j], test::kF64) << "step " << step << ", span " << i << ", " << j;
        }
      }
    }
  }
}

TEST_P(WeightAverage, AStepThatIsNotValidLeavesItAlone) {
  const std::vector<ParameterSpan> spans = spans_of(DType::f32);
  const auto optimizer = GetParam().make(spans);
  optimizer->average_weights(0.9);
  set_gradients_of(spans, 1);
  optimizer->step(0.05, 1);
  const std::vector<double> before = average_of(*optimizer, 0).values();
  EXPECT_NE(before, spans[0].weights.values());
  const StepState skipped{.learning_rate = 0.05, .optimizer_step = 2, .is_valid = 0};
  optimizer->step(&skipped);
  EXPECT_EQ(average_of(*optimizer, 0).values(), before);
}

TEST_P(WeightAverage, CopiesAreTheWeightsRoundedAfterAStepAndASwap) {
  std::vector<ParameterSpan> spans = spans_of(DType::f32);
  const std::vector<ParameterSpan> plain = spans_of(DType::f32);
  for (ParameterSpan& span : spans) span.copies = zeros(span.weights.shape(), DType::bf16);
  const auto optimizer = GetParam().make(spans), without = GetParam().make(plain);
  optimizer->average_weights(0.9);
  const auto expect_rounded = [&] {
    for (const ParameterSpan& span : spans) EXPECT_EQ(span.copies.values(), rounded_to_bf16(span.weights.values()));
  };
  for (const uint32_t step : {1u, 2u}) {
    set_gradients_of(spans, step);
    set_gradients_of(plain, step);
    optimizer->step(0.05, 1);
    without->step(0.05, 1);
    expect_rounded();
    for (size_t i = 0; i < spans.size(); ++i) EXPECT_EQ(spans[i].weights.values(), plain[i].weights.values());
  }
  optimizer->swap_weights_with_average();
  expect_rounded();
}

TEST_P(WeightAverage, ASwapExchangesItWithTheWeights) {
  const std::vector<ParameterSpan> spans = spans_of(DType::f32);
  const auto optimizer = GetParam().make(spans);
  optimizer->average_weights(0.9);
  set_gradients_of(spans, 1);
  optimizer->step(0.05, 1);
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::vector<double> weights = spans[i].weights.values(), average = average_of(*optimizer, i).values();
    optimizer->swap_weights_with_average();
    EXPECT_EQ(spans[i].weights.values(), average);
    EXPECT_EQ(average_of(*optimizer, i).values(), weights);
    optimizer->swap_weights_with_average();
    EXPECT_EQ(spans[i].weights.values(), weights);
    EXPECT_EQ(average_of(*optimizer, i).values(), average);
  }
}

TEST_P(WeightAverage, EveryParameterHasOne) {
  const std::vector<ParameterSpan> spans = spans_of(DType::f32);
  const auto optimizer = GetParam().make(spans);
  const std::vector<std::string> before = optimizer->state_names(spans[0].gradients);
  EXPECT_FALSE(optimizer->averages_weights());
  optimizer->average_weights(0.9);
  std::vector<std::string> expected = before;
  expected.emplace_back("ema");
  EXPECT_EQ(optimizer->state_names(spans[0].gradients), expected);
}

// More than one piece of the buffer that swaps, and one element more.
TEST(WeightAverageOfMany, IsSwappedPieceByPieceAndTheSameForAnyThreads) {
  const int64_t n = (int64_t{1} << 20) + 1;
  const int threads = cpu::max_threads();
  std::vector<double> first;
  for (const int count : {1, 2, 3}) {
    cpu::set_max_threads(count);
    const ParameterSpan span{full({n}, DType::f32, 1.5), full({n}, DType::f32, 0.25), false};
    Sgd optimizer({span}, {});
    optimizer.average_weights(0.9);
    optimizer.step(0.1, 1);
    optimizer.step(0.3, 1);
    const std::vector<double> average = average_of(optimizer, 0).values(), weights = span.weights.values();
    if (first.empty()) first = average;
    EXPECT_EQ(average, first) << count << " threads";
    EXPECT_EQ(average.front(), average.back());
    optimizer.swap_weights_with_average();
    EXPECT_EQ(span.weights.values(), average);
    EXPECT_EQ(average_of(optimizer, 0).values(), weights);
  }
  cpu::set_max_threads(threads);
}

TEST(WeightAverageOfMany, RefusesADecayOutOfRangeAndASecondCall) {
  const std::vector<ParameterSpan> spans = spans_of(DType::f32);
  Sgd optimizer(spans, {});
  for (const double decay : {0.0, 1.0, -0.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(optimizer.average_weights(decay), ValueError) << decay;
  }
  EXPECT_TRUE(optimizer.state().empty());
  optimizer.average_weights(0.9);
  EXPECT_THROW(optimizer.average_weights(0.9), ValueError);
}

}  // namespace
}  // namespace heed::optim
