// Values known by hand, for faults that kernels of this kind are known to have: sizes that fill no tile, grids with
// many rows, masks that hide a whole tile, sums that cancel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/cross_entropy.hpp"
#include "autograd/ops/dropout.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/layer_norm.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using KnownValues = CudaTest;
using Values = std::vector<double>;

Tensor on_cuda(const Shape& shape, const Values& values, DType dtype = DType::f32) {
  Tensor tensor = from_values(shape, dtype, values, Device::cuda);
  tensor.set_requires_grad(true);
  return tensor;
}
Tensor on_cuda(const Shape& shape, double value, DType dtype = DType::f32) {
  return on_cuda(shape, Values(static_cast<size_t>(shape.numel()), value), dtype);
}
Tensor ones_like(const Tensor& y) { return full(y.shape(), y.dtype(), 1.0, y.device()); }

void expect_near(const Values& got, const Values& want, double within = kF32) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], within * std::max(1.0, std::abs(want[i]))) << "element " << i;
  }
}

TEST_F(KnownValues, MatmulOfMoreMatricesThanOneCallTakes) {
  constexpr int64_t kBatches = 2 * 65535 + 3;
  Values a, b, c;
  for (int64_t i = 0; i < kBatches; ++i) {
    a.push_back(static_cast<double>(i % 7));
    b.push_back(static_cast<double>(i % 5 - 2));
    c.push_back(a.back() * b.back());
  }
  const Tensor x = on_cuda({kBatches, 1, 1}, a), w = on_cuda({kBatches, 1, 1}, b);
  const Tensor y = matmul(x, w);
  EXPECT_EQ(y.values(), c);
  backward(y, ones_like(y));
  EXPECT_EQ(x.grad().values(), b);
  EXPECT_EQ(w.grad().values(), a);
}

// More shapes than cuBLASLt's plans are kept for, and then the first ones again.
TEST_F(KnownValues, MatmulOfManyShapes) {
  for (const int64_t shapes : {520, 8}) {
    for (int64_t n = 1; n <= shapes; ++n) {
      EXPECT_EQ(matmul(on_cuda({1, 2}, {2, 3}), on_cuda({2, n}, 1.0)).values(), Values(static_cast<size_t>(n), 5.0));
    }
  }
}

TEST_F(KnownValues, DropoutKeepsWhatItsGradientKeeps) {
  const Tensor x = on_cuda({10'000}, 1.0);
  const RandomStream first{.seed = 3, .site = random_site(RandomDomain::dropout, 1, 2), .step = 5};
  RandomStream second = first;
  second.step = 6;
  const Tensor y = dropout(x, 0.5, first, 0);
  backward(y, ones_like(y));
  const Values kept = y.values(), other = dropout(x.detach(), 0.5, second, 0).values();
  EXPECT_EQ(x.grad().values(), kept);
  double share = 0, same = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(kept[i] == 0 || kept[i] == 2);
    share += kept[i] / 2 / 10'000;
    same += (kept[i] == other[i]) / 10'000.0;
  }
  const double deviation = kSigmas * 0.5 / 100;
  EXPECT_NEAR(share, 0.5, deviation);
  EXPECT_NEAR(same, 0.5, deviation);
}

TEST_F(KnownValues, OneTokenManyTimes) {
  const Tensor table = on_cuda({3, 2}, 0.0);
  const Tensor y = embedding(table, from_tokens({1000}, std::vector<int32_t>(1000, 1), Device::cuda));
  backward(y, ones_like(y));
  EXPECT_EQ(table.grad().values(), (Values{0, 0, 1000, 1000, 0, 0}));
}

TEST_F(KnownValues, TheLastQuerySeesTheLastKey) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor y = attention(on_cuda({1, 2, 1}, 0.0, dtype), on_cuda({1, 5, 1}, 1.0, dtype),
                               on_cuda({1, 5, 1}, {1, 2, 3, 4, 5}, dtype), {});
    expect_near(y.values(), {2.5, 3.0});
  }
}

// The first tile that a row meets may be masked as a whole, and all scores may be far below 0.
TEST_F(KnownValues, ScoresFarFromZero) {
  constexpr int64_t kLength = 300;
  Values positions, halves;
  for (int64_t i = 0; i < kLength; ++i) {
    positions.push_back(static_cast<double>(i));
    halves.push_back(static_cast<double>(i) / 2);
  }
  for (const double score : {-200.0, 200.0}) {
    const Tensor y = attention(on_cuda({1, kLength, 1}, score), on_cuda({1, kLength, 1}, 1.0),
                               on_cuda({1, kLength, 1}, positions), {.scale = 1});
    expect_near(y.values(), halves);
  }
  // Scores that rise by 1 from key to key: sum of j e^(j - i) over the sum of e^(j - i).
  const Tensor y = attention(on_cuda({1, kLength, 1}, 1.0), on_cuda({1, kLength, 1}, positions),
                             on_cuda({1, kLength, 1}, positions), {.scale = 1});
  EXPECT_NEAR(y.values().back(), 299 - 1 / (std::exp(1.0) - 1), 299 * kF32);
}

TEST_F(KnownValues, ScaleIsThatOfTheHeadSize) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Values q(8, 0.0), k(16, 0.0), v(16, 0.0);
    q[0] = k[0] = 2;
    v[0] = 1;
    const Tensor y = attention(on_cuda({1, 1, 8}, q, dtype), on_cuda({1, 2, 8}, k, dtype), on_cuda({1, 2, 8}, v, dtype),
                               {.num_heads = 2, .causal = false});
    EXPECT_NEAR(y.values()[0], 0.880797, dtype == DType::f32 ? kSixDigits : kBf16Epsilon);
  }
}

TEST_F(KnownValues, GroupsOfHeadsSumTheirGradients) {
  for (const int64_t size : {1, 8, 64}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor q = on_cuda({1, 3, 4 * size}, 0.0, dtype), k = on_cuda({1, 3, 2 * size}, 0.0, dtype);
      Values by_head(static_cast<size_t>(6 * size));
      for (size_t i = 0; i < by_head.size(); ++i) by_head[i] = static_cast<int64_t>(i) / size % 2 == 0 ? 1 : 10;
      const Tensor v = on_cuda({1, 3, 2 * size}, by_head, dtype);
      const Tensor y = attention(q, k, v, {.num_heads = 4, .num_kv_heads = 2});
      const Values out = y.values();
      for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<int64_t>(i) / size % 4 < 2 ? 1 : 10);
      backward(y, ones_like(y));
      const double want[] = {11.0 / 3, 5.0 / 3, 2.0 / 3};
      const Values dv = v.grad().values();
      for (size_t i = 0; i < dv.size(); ++i) {
        EXPECT_NEAR(dv[i], want[static_cast<int64_t>(i) / (2 * size)], dtype == DType::f32 ? kF32 : 4 * kBf16Epsilon);
      }
    }
  }
}

// Lengths and head sizes around those of tiles: with q = 0 each row is the mean of what it sees.
TEST_F(KnownValues, LengthsAndHeadSizesThatFillNoTile) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [length, size] : {std::pair<int64_t, int64_t>{1, 64},
                                       {2, 8},
                                       {31, 24},
                                       {33, 16},
                                       {63, 3},
                                       {64, 64},
                                       {65, 128},
                                       {127, 5},
                                       {129, 80},
                                       {193, 32}}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " T " << length << " D " << size);
      Values values;
      for (int64_t i = 0; i < length * size; ++i) values.push_back(static_cast<double>(i / size % 8));
      const Tensor q = on_cuda({1, length, size}, 0.0, dtype), k = on_cuda({1, length, size}, 1.0, dtype),
                   v = on_cuda({1, length, size}, values, dtype);
      const Tensor y = attention(q, k, v, {});
      backward(y, ones_like(y));
      const Values out = y.values(), dv = v.grad().values();
      const double within = dtype == DType::f32 ? kF32 : 2 * kBf16Epsilon;
      double sum = 0, rest = 0;
      for (int64_t t = 0; t < length; ++t) {
        sum += static_cast<double>(t % 8);
        EXPECT_NEAR(out[static_cast<size_t>((t + 1) * size - 1)], sum / static_cast<double>(t + 1), within * 8);
      }
      for (int64_t t = length; t-- > 0;) {  // dv[t] = sum of 1 / (i + 1) over the queries i >= t
        rest += 1 / static_cast<double>(t + 1);
        EXPECT_NEAR(dv[static_cast<size_t>(t * size)], rest, within * 8);
      }
    }
  }
}

TEST_F(KnownValues, LayerNormOfLargeMeans) {
  const auto norm = [](const Values& x, double bias) {
    const auto n = static_cast<int64_t>(x.size());
    const Tensor in = on_cuda({1, n}, x);
    const Tensor y = layer_norm(in, on_cuda({n}, 1.0), on_cuda({n}, bias), 1e-5);
    backward(y, ones_like(y));
    for (const double g : in.grad().values()) EXPECT_TRUE(std::isfinite(g));
    return y.values();
  };
  expect_near(norm({40000, 40001, 40002, 40003}, 0), {-1.341635, -0.447212, 0.447212, 1.341635}, kSixDigits);
  EXPECT_EQ(norm(Values(256, 1234.0), 0.25), Values(256, 0.25));
}

TEST_F(KnownValues, MoreRowsThanAGridHasInY) {
  constexpr int64_t kRows = 70'000, kColumns = 8;
  Values x;
  for (int64_t i = 0; i < kRows * kColumns; ++i) x.push_back(static_cast<double>(i % 13));
  const Tensor weight = on_cuda({kColumns}, 1.0), bias = on_cuda({kColumns}, 0.0);
  const Tensor y = layer_norm(on_cuda({kRows, kColumns}, x), weight, bias);
  backward(y, ones_like(y));
  EXPECT_EQ(bias.grad().values(), Values(kColumns, 70'000.0));
  const Tensor alone = layer_norm(on_cuda({1, kColumns}, Values(x.end() - kColumns, x.end())), weight, bias);
  const Values all = y.values();
  EXPECT_EQ(Values(all.end() - kColumns, all.end()), alone.values());
}

TEST_F(KnownValues, MoreHeadsThanAGridHasInY) {
  for (const auto& [dtype, size] : {std::pair<DType, int64_t>{DType::f32, 1}, {DType::bf16, 8}}) {
    const Shape shape{70'000, 2, size};
    const Tensor y = attention(on_cuda(shape, 0.0, dtype), on_cuda(shape, 0.0, dtype), on_cuda(shape, 1.0, dtype), {});
    EXPECT_EQ(y.values(), Values(static_cast<size_t>(shape.numel()), 1.0));
  }
}

TEST_F(KnownValues, CrossEntropyOfLargeLogits) {
  const auto loss = [](const Values& logits, int32_t target, const Values& gradient) {
    const Tensor x = on_cuda({1, static_cast<int64_t>(logits.size())}, logits);
    const Tensor y = cross_entropy(x, from_tokens({1}, {target}, Device::cuda));
    backward(y);
    if (!gradient.empty()) expect_near(x.grad().values(), gradient);
    return y.item();
  };
  EXPECT_NEAR(loss({1e8, 1e8}, 1, {0.5, -0.5}), 0.693147, kSixDigits);
  EXPECT_NEAR(loss({-431, 279, 427}, 0, {-1, 0, 1}), 858.0, 858 * kF32);
  EXPECT_NEAR(loss({-200, -200, -200, -200}, 2, {}), 1.386294, kSixDigits);
  EXPECT_NEAR(loss({0, -200}, 1, {}), 200.0, 200 * kF32);
}

TEST_F(KnownValues, PaddedColumnsCountForNothing) {
  const Tensor logits = on_cuda({2, 128}, 0.0);
  const Tensor loss = cross_entropy(logits, from_tokens({2}, {0, 64}, Device::cuda), {.vocab = 65});
  EXPECT_NEAR(loss.item(), 4.174387, kSixDigits);
  backward(loss);
  const Values gradient = logits.grad().values();
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient[i] != 0, i % 128 < 65) << i;
}

}  // namespace
}  // namespace heed::test
