#include "nn/parameter_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tolerance.hpp"

namespace heed::nn {
namespace {

TEST(ParameterStore, LaysGroupsOutInReverseOrderOfDeclaration) {
  ParameterStore store(DType::f32);
  store.declare("first", {3, 5}, {.std = 1});
  store.declare("gain", {7}, {.constant = 1});
  store.declare("second", {2, 2}, {.std = 1});
  store.declare("bias", {4}, {});
  store.build(1);
  EXPECT_EQ(store.entry("second").offset, 0);
  EXPECT_EQ(store.entry("first").offset, 16);
  EXPECT_EQ(store.entry("bias").offset, 0);
  EXPECT_EQ(store.entry("gain").offset, 16);
  EXPECT_EQ(store.parameters(), 15 + 7 + 4 + 4);
  ASSERT_EQ(store.groups().size(), 2u);
  EXPECT_TRUE(store.groups()[0].decay);
  EXPECT_FALSE(store.groups()[1].decay);
  EXPECT_EQ(store.groups()[0].tensors, 2);
  EXPECT_EQ(store.groups()[0].parameters + store.groups()[1].parameters, store.parameters());
  // 15 elements of "first" and the gap behind them, which holds a zero.
  EXPECT_EQ(store.groups()[0].weights.data<float>()[31], 0.0f);
  EXPECT_EQ(store.entry("gain").tensor.values(), std::vector<double>(7, 1.0));
}

TEST(ParameterStore, TensorsAndGradientsAreSlicesOfTheFlatBuffers) {
  ParameterStore store(DType::f64);
  store.declare("a", {2, 3}, {.std = 1});
  store.declare("b", {2, 3}, {.std = 1});
  store.build(1);
  const auto& entry = store.entry("a");
  entry.tensor.data<double>()[4] = 42;
  entry.tensor.grad().data<double>()[4] = 43;
  EXPECT_EQ(store.groups()[0].weights.data<double>()[16 + 4], 42);
  EXPECT_EQ(store.groups()[0].gradients.data<double>()[16 + 4], 43);
  store.zero_gradients();
  EXPECT_EQ(entry.tensor.grad().data<double>()[4], 0);
}

TEST(ParameterStore, LeavesAreTheTensorsOfTheEntries) {
  ParameterStore store(DType::f32);
  const Parameter a = store.declare("a", {2, 3}, {.std = 1}), b = store.declare("b", {3}, {});
  store.build(1);
  const std::vector<Tensor> leaves = store.leaves();
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[0].ref().data, a.tensor().ref().data);
  EXPECT_EQ(leaves[1].ref().data, b.tensor().ref().data);
  EXPECT_TRUE(leaves[0].requires_grad() && leaves[1].grad());
}

TEST(ParameterStore, Bf16KeepsF32WeightsBesideRoundedCopies) {
  ParameterStore store(DType::bf16);
  const Parameter matrix = store.declare("matrix", {3, 5}, {.std = 1}),
                  gain = store.declare("gain", {5}, {.constant = 1});
  store.build(1);
  const auto& entry = store.entry("matrix");
  EXPECT_EQ(entry.values.dtype(), DType::f32);
  EXPECT_EQ(matrix.tensor().dtype(), DType::bf16);
  EXPECT_EQ(matrix.tensor().grad().dtype(), DType::f32);
  EXPECT_EQ(gain.tensor().dtype(), DType::f32);
  EXPECT_EQ(gain.copy().dtype(), DType::bf16);
  EXPECT_EQ(gain.copy().values(), gain.tensor().values());
  for (size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(matrix.tensor().values()[i], static_cast<float>(Bf16(entry.values.values()[i])));
  }
  ParameterStore exact(DType::f32);
  exact.declare("matrix", {3, 5}, {.std = 1});
  exact.build(1);
  EXPECT_EQ(entry.values.values(), exact.entry("matrix").values.values()) << "the same start in both precisions";
  entry.values.data<float>()[4] = 42.1f;
  gain.tensor().data<float>()[3] = 42.1f;
  store.update_copies();
  EXPECT_EQ(matrix.tensor().values()[4], 42);
  EXPECT_EQ(gain.copy().values()[3], 42);
  EXPECT_THROW(store.release_weights(1), GraphError);
}

TEST(ParameterStore, ValuesDependOnSeedAndNameOnly) {
  const auto values = [](uint32_t seed, bool with_other) {
    ParameterStore store(DType::f32);
    if (with_other) store.declare("other", {4, 4}, {.std = 1});
    store.declare("weight", {4, 4}, {.std = 1});
    store.build(seed);
    return store.entry("weight").tensor.values();
  };
  EXPECT_EQ(values(1, false), values(1, true));
  EXPECT_NE(values(1, false), values(2, false));
}

TEST(ParameterStore, DrawsTheStandardDeviationAskedFor) {
  ParameterStore store(DType::f32);
  store.declare("weight", {300, 300}, {.std = 0.02});
  store.build(3);
  double sum = 0, squares = 0;
  const std::vector<double> values = store.entry("weight").tensor.values();
  for (const double v : values) {
    sum += v;
    squares += v * v;
  }
  const auto n = static_cast<double>(values.size());
  const double mean_error = 0.02 / std::sqrt(n), deviation_error = mean_error / std::sqrt(2.0);
  const double deviation = std::sqrt(squares / n);
  EXPECT_LT(std::abs(sum / n), test::kSigmas * mean_error);
  EXPECT_LT(std::abs(deviation - 0.02), test::kSigmas * deviation_error);
}

TEST(ParameterStore, RefusesWrongUse) {
  ParameterStore store(DType::f32);
  store.declare("a", {2}, {});
  EXPECT_THROW(store.declare("a", {3}, {}), GraphError);
  store.build(1);
  EXPECT_THROW(store.declare("b", {3}, {}), GraphError);
  EXPECT_THROW(store.build(1), GraphError);
  EXPECT_THROW(store.entry("c"), GraphError);
  EXPECT_FALSE(Parameter().tensor());
}

}  // namespace
}  // namespace heed::nn
