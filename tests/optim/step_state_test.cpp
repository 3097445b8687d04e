#include "optim/step_state.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "optim/adamw.hpp"
#include "optim/grad_clip.hpp"
#include "tests/optim/optimizer_fixture.hpp"

namespace heed::optim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

StepState finalized(StepState state, const std::vector<double>& sums) {
  compute_clipping(&state, from_values({static_cast<int64_t>(sums.size())}, DType::f64, sums));
  return state;
}

TEST(StepStateTest, AddsLossesOfEitherDtype) {
  StepState state;
  add_loss(&state, from_values({}, DType::f32, {0.5}));
  add_loss(&state, from_values({}, DType::f64, {1e-12}));
  EXPECT_EQ(state.loss, 0.5 + 1e-12);
}

TEST(StepStateTest, ClipsAsClipFactor) {
  for (const double clip : {0.0, 0.5, 1.0, 100.0}) {
    const StepState state = finalized({.clip_norm = clip, .targets = 3}, {9, 16});
    EXPECT_EQ(state.grad_norm, 5.0);
    EXPECT_EQ(state.gradient_scale, clip_factor(5, clip)) << clip;
    EXPECT_EQ(state.is_valid, 1);
  }
}

TEST(StepStateTest, IsNotValidWithoutAFiniteLossAndNormATargetAndAllBatches) {
  for (const double bad : {kNan, kInf, -kInf}) {
    EXPECT_EQ(finalized({.targets = 3, .loss = bad}, {1}).is_valid, 0) << bad;
    EXPECT_EQ(finalized({.targets = 3}, {1, bad}).is_valid, 0) << bad;
  }
  EXPECT_EQ(finalized({.targets = 0}, {1}).is_valid, 0);
  EXPECT_EQ(finalized({.targets = 3, .failed = 1}, {1}).is_valid, 0);
}

TEST(StepStateTest, TheOptimizerReadsItAndChangesNothingWhereItIsNotValid) {
  const std::vector<double> start = random_values(37, 3), gradients = random_values(37, 4);
  const ParameterSpan a = make_span(DType::f32, start, gradients, true),
                      b = make_span(DType::f32, start, gradients, true);
  AdamW by_value({a}, {}), by_address({b}, {});
  StepState state{.learning_rate = 0.1, .optimizer_step = 1, .gradient_scale = 0.7};
  state.is_valid = 0;
  by_address.step(&state);
  EXPECT_EQ(b.weights.values(), start);
  for (const auto& [name, moment] : by_address.state())
    EXPECT_EQ(moment.values(), std::vector<double>(37, 0.0)) << name;
  by_address.restore_steps(0);
  for (state.is_valid = 1; state.optimizer_step <= 3; ++state.optimizer_step) {
    state.bias_correction = by_address.bias_correction(state.optimizer_step);
    by_value.step(0.1, 0.7);
    by_address.step(&state);
    EXPECT_EQ(a.weights.values(), b.weights.values());
  }
}

}  // namespace
}  // namespace heed::optim
