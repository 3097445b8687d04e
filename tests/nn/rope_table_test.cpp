#include "nn/rope_table.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/rope.hpp"
#include "nn/position_table.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::nn {
namespace {

// One head of 2 pairs with the frequencies 1 and 1/100.
GptConfig two_pairs(int64_t seq_len) {
  return {.d_model = 4, .num_heads = 1, .seq_len = seq_len, .position = Position::rope};
}

TEST(RopeTable, IsExactAtFarPositions) {
  const GptConfig config = two_pairs(1'000'001);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor table = rope_table(config, config.seq_len, dtype, Device::cpu);
    ASSERT_EQ(table.shape(), (Shape{config.seq_len, 4}));
    for (const int64_t t : {int64_t{0}, int64_t{1}, int64_t{999}, int64_t{123'457}, config.seq_len - 1}) {
      const std::vector<double> row = table.slice(t * 4, {4}).values();
      const long double angles[] = {static_cast<long double>(t), static_cast<long double>(t) / 100};
      for (size_t i = 0; i < 2; ++i) {
        const double bound = dtype == DType::f32 ? test::kF32Epsilon : test::kTorchF64;
        EXPECT_NEAR(row[i], static_cast<double>(std::cos(angles[i])), bound) << t;
        EXPECT_NEAR(row[2 + i], static_cast<double>(std::sin(angles[i])), bound) << t;
      }
    }
  }
}

TEST(RopeTable, OnlyForRope) { EXPECT_EQ(rope_table(two_pairs(3), 3, DType::bf16, Device::cpu).dtype(), DType::f32); }

TEST(RopeTable, ScoresDependOnTheDistanceAlone) {
  const GptConfig config = two_pairs(100);
  const Tensor table = rope_table(config, config.seq_len, DType::f64, Device::cpu);
  const auto score = [&](int64_t query, int64_t key) {
    const auto rotated = [&](const char* name, int64_t position) {
      const Tensor x = draw(normal(name, {1, 1, 4}), DType::f64, 1);
      return rope(x, table, {.first_position = position}).values();
    };
    const std::vector<double> q = rotated("q", query), k = rotated("k", key);
    double sum = 0;
    for (size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
    return sum;
  };
  for (int64_t shift = 1; shift < 90; shift += 8) EXPECT_NEAR(score(7, 3), score(7 + shift, 3 + shift), test::kF64);
  EXPECT_GT(std::abs(score(5, 0) - score(5, 1)), test::kF32);
}

TEST(RopeTable, ALinearFactorDividesPositions) {
  GptConfig config = two_pairs(17);
  const Tensor plain = rope_table(config, config.seq_len, DType::f64, Device::cpu);
  config.rope_scaling = RopeScaling::linear;
  config.rope_scaling_factor = 4;
  const Tensor slowed = rope_table(config, config.seq_len, DType::f64, Device::cpu);
  for (int64_t t = 0; t < 5; ++t) {
    const std::vector<double> a = plain.slice(t * 4, {4}).values(), b = slowed.slice(4 * t * 4, {4}).values();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], test::kF64);
  }
}

// By wavelengths, as the paper and transformers put it.
TEST(RopeTable, Llama3ScalesLongWavelengthsOnly) {
  GptConfig config{.d_model = 128, .num_heads = 1, .position = Position::rope, .rope_base = 500000};
  const std::vector<double> plain = rope_frequencies(config);
  config.rope_scaling = RopeScaling::llama3;
  config.rope_scaling_factor = 8;
  const std::vector<double> scaled = rope_frequencies(config);
  int kept = 0, divided = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * M_PI / plain[i], smooth = (8192 / wavelength - 1) / 3;
    double expected = (1 - smooth) * plain[i] / 8 + smooth * plain[i];
    if (wavelength < 8192.0 / 4) {
      expected = plain[i];
      ++kept;
    } else if (wavelength > 8192) {
      expected = plain[i] / 8;
      ++divided;
    }
    EXPECT_NEAR(scaled[i], expected, test::kF64 * expected) << i;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(divided, 29);
}

TEST(PositionTable, HasEveryRowAndLeavesTheFirstTableWhereItIs) {
  std::vector<int64_t> computed;
  const PositionTable table(4, [&](int64_t rows) {
    computed.push_back(rows);
    return zeros({rows, 2}, DType::f64);
  });
  const void* const first = table.rows(1).ref().data;
  for (int64_t count = 1; count <= 20; ++count) {
    EXPECT_GE(table.rows(count).shape()[0], count);
    EXPECT_EQ(table.rows(4).ref().data, first) << "a captured graph reads it";
  }
  EXPECT_EQ(computed, (std::vector<int64_t>{4, 8, 16, 32}));
  EXPECT_GE(table.rows(100).shape()[0], 100);
  EXPECT_FALSE(PositionTable().rows(5));
}

}  // namespace
}  // namespace heed::nn
