// What every OP_CASE must pass on the CPU: one test per sample and property.
#include <algorithm>

#include "autograd/check/op_case.hpp"

#include <gtest/gtest.h>

#include "autograd/check/gradcheck.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/tape.hpp"
#include "tests/support/op_runs.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

class EveryOp : public testing::TestWithParam<Item> {
 protected:
  void SetUp() override { set_memory_poison(true); }
  void TearDown() override { set_memory_poison(false); }
  const OpSample& sample() const { return *GetParam().sample; }
};

TEST_P(EveryOp, GradientMatchesDifferences) {
  if (!sample().check_gradients_by_differences) GTEST_SKIP() << "too large for differences, see the plain reference";
  const Tensors inputs = draw_all(sample(), {DType::f64}, false);
  std::vector<GradcheckTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (sample().inputs[i].wants_gradient()) tensors.push_back({sample().inputs[i].name, inputs[i]});
  }
  const GradcheckResult result =
      gradcheck([&] { return sample().run(inputs); }, tensors, {.tolerance = kGradcheck, .max_elements = 64});
  EXPECT_TRUE(result.passed) << result.text();
}

TEST_P(EveryOp, MatchesThePlainReferenceInF64) {
  const OpResult op = run(sample(), Place{DType::f64});
  const OpResult plain = run_reference<double>(sample(), draw_all(sample(), {DType::f64}));
  EXPECT_LE(distance(op.y, plain.y), kF64 * std::max(1.0, largest(plain.y)));
  ASSERT_EQ(op.gradients.size(), plain.gradients.size());
  for (size_t i = 0; i < op.gradients.size(); ++i) {
    EXPECT_LE(distance(op.gradients[i], plain.gradients[i]), kF64 * std::max(1.0, largest(plain.gradients[i])))
        << "gradient " << i;
  }
}

TEST_P(EveryOp, F32IsAsExactAsThePlainReference) { expect_f32_as_exact_as_plain(sample(), Device::cpu); }

TEST_P(EveryOp, Bf16RoundsThePlainReferenceOnce) { expect_bf16_rounds_once(sample(), Device::cpu); }

TEST_P(EveryOp, SameBitsAgainAndForAnyThreadsInputsUnchanged) {
  const int threads = cpu::max_threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_inputs_unchanged_and_same_bits(sample(), {dtype});
    const OpResult first = run(sample(), Place{dtype});
    for (const int count : {1, 2, 3}) {
      cpu::set_max_threads(count);
      expect_equal(first, run(sample(), Place{dtype}));
    }
    cpu::set_max_threads(threads);
  }
}

TEST_P(EveryOp, TwoPassesAddUp) { expect_two_passes_add_up(sample(), Device::cpu); }

TEST_P(EveryOp, OneGradientAloneIsTheSame) { expect_one_gradient_alone_is_the_same(sample(), Device::cpu); }

TEST_P(EveryOp, NanAndInfShow) { expect_nan_and_inf_show(sample(), {{DType::f32}, {DType::f64}, {DType::bf16}}); }

TEST_P(EveryOp, AnomalyModeNamesIt) {
  set_detect_anomaly(true);
  for (size_t i = 0; i < sample().inputs.size(); ++i) {
    if (!sample().inputs[i].wants_gradient() || sample().inputs[i].shape.numel() == 0) continue;
    Tensors tensors = draw_all(sample(), {DType::f32});
    tensors[i] = full(tensors[i].shape(), DType::f32, std::numeric_limits<double>::quiet_NaN());
    tensors[i].set_requires_grad(true);
    try {
      run(sample(), tensors);
      ADD_FAILURE() << "no anomaly for NaN in " << sample().inputs[i].name;
    } catch (const DivergedError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + GetParam().op->name + "'"), std::string::npos) << error.what();
    }
  }
  set_detect_anomaly(false);
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOp, testing::ValuesIn(all_items()), item_name);

TEST(OpErrors, AreOneClearLine) {
  for (const OpCase& op : op_cases()) {
    EXPECT_FALSE(op.samples.empty()) << op.name;
    for (const OpError& error : op.errors) {
      SCOPED_TRACE(op.name + ": " + error.label);
      try {
        error.run();
        ADD_FAILURE() << "no error";
      } catch (const std::exception& e) {
        const std::string text = e.what();
        EXPECT_TRUE(error.is_kind(e)) << text;
        EXPECT_NE(text.find(error.text), std::string::npos) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      }
    }
  }
}

}  // namespace
}  // namespace heed::test
