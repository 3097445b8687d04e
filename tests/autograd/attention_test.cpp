// The values of attention: against numbers derived by hand and against the plain formula in double.
#include <cmath>
#include <limits>

#include "tests/autograd/attention_run.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Causal attention of one head size by the formula in double, forward and backward.
struct Plain {
  int64_t batch, length, heads, head_size;

  int64_t at(int64_t b, int64_t t, int64_t h) const { return ((b * length + t) * heads + h) * head_size; }
  double dot(const Values& a, int64_t i, const Values& b, int64_t j) const {
    double sum = 0;
    for (int64_t c = 0; c < head_size; ++c) sum += a[static_cast<size_t>(i + c)] * b[static_cast<size_t>(j + c)];
    return sum;
  }
  void add(Values& to, int64_t i, double factor, const Values& from, int64_t j) const {
    for (int64_t c = 0; c < head_size; ++c) to[static_cast<size_t>(i + c)] += factor * from[static_cast<size_t>(j + c)];
  }

  Result run(const Values& q, const Values& k, const Values& v, const Values& dy) const {
    const Values none(q.size(), 0.0);
    Result r{none, none, none, none};
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < length; ++i) row(q, k, v, dy, b, i, h, r);
      }
    }
    return r;
  }

  void row(const Values& q, const Values& k, const Values& v, const Values& dy, int64_t b, int64_t i, int64_t h,
           Result& r) const {
    const double scale = 1 / std::sqrt(static_cast<double>(head_size));
    Values p;
    for (int64_t j = 0; j <= i; ++j) p.push_back(scale * dot(q, at(b, i, h), k, at(b, j, h)));
    const double most = *std::max_element(p.begin(), p.end());
    double sum = 0, delta = 0;
    for (double& weight : p) sum += weight = std::exp(weight - most);
    for (int64_t j = 0; j <= i; ++j) {
      p[static_cast<size_t>(j)] /= sum;
      add(r.y, at(b, i, h), p[static_cast<size_t>(j)], v, at(b, j, h));
      add(r.dv, at(b, j, h), p[static_cast<size_t>(j)], dy, at(b, i, h));
      delta += p[static_cast<size_t>(j)] * dot(dy, at(b, i, h), v, at(b, j, h));
    }
    for (int64_t j = 0; j <= i; ++j) {
      const double ds = scale * p[static_cast<size_t>(j)] * (dot(dy, at(b, i, h), v, at(b, j, h)) - delta);
      add(r.dq, at(b, i, h), ds, k, at(b, j, h));
      add(r.dk, at(b, j, h), ds, q, at(b, i, h));
    }
  }
};

TEST(Attention, TheLastQuerySeesTheLastKey) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor v = from_values({1, 5, 1}, dtype, {1, 2, 3, 4, 5});
    const Values y = attention(zeros({1, 2, 1}, dtype), random("k", {1, 5, 1}, dtype), v, {}).values();
    EXPECT_NEAR(y[0], 2.5, kF32);
    EXPECT_NEAR(y[1], 3.0, kF32);
  }
}

TEST(Attention, ScalesByTheRootOfTheHeadSize) {
  const Tensor q = from_values({1, 1, 8}, DType::f32, {2, 0, 0, 0, 2, 0, 0, 0});
  const Tensor k = from_values({1, 2, 8}, DType::f32, {2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Tensor v = from_values({1, 2, 8}, DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  for (const double y : attention(q, k, v, {.num_heads = 2}).values()) {
    EXPECT_NEAR(y, std::exp(2) / (std::exp(2) + 1), kSixDigits);
  }
}

// Output and log-sum-exp of 300 positions (no multiple of a tile) with head size 1 and scale 1: score (i, j) is
// q[i] * k[j], v[j] is j.
struct Line {
  Values y, lse;
};
constexpr int64_t kLine = 300;

Line line(double q_everywhere, const std::function<double(int64_t)>& k_of) {
  const Shape shape{1, kLine, 1};
  const Tensor q = full(shape, DType::f32, q_everywhere), k = from_values(shape, DType::f32, numbers(kLine, k_of));
  const Tensor v = from_values(shape, DType::f32, numbers(kLine, [](int64_t j) { return j; }));
  const Tensor y = empty(shape, DType::f32), lse = empty({1, 1, kLine}, DType::f32);
  const auto heads = [](const Tensor& t) { return ConstHeads{t.data<float>(), kLine, 1, 1}; };
  cpu::attention_forward(
      context(Device::cpu),
      {.problem = {.batch = 1, .queries = kLine, .keys = kLine, .heads = 1, .kv_heads = 1, .head_size = 1},
       .y = {y.data<float>(), kLine, 1, 1},
       .lse = lse.ref(),
       .q = heads(q),
       .k = heads(k),
       .v = heads(v)});
  return {y.values(), lse.values()};
}

TEST(Attention, TakesScoresFarFromZero) {
  for (const double score : {-200.0, 200.0}) {
    const Line equal = line(score, [](int64_t) { return 1.0; });
    for (int64_t i = 0; i < kLine; ++i) {
      const auto n = static_cast<size_t>(i);
      EXPECT_NEAR(equal.y[n], static_cast<double>(i) / 2, kF32 * static_cast<double>(i) / 2);
      EXPECT_NEAR(equal.lse[n], score + std::log(static_cast<double>(i + 1)), kSixDigits * 200);
    }
  }
}

TEST(Attention, TakesScoresThatRiseFromTileToTile) {
  const Line rising = line(1, [](int64_t j) { return j; });
  double sum = 0, mean = 0;  // of e^(j - i) and of j under these weights
  for (int64_t i = 0; i < kLine; ++i) {
    const double before = sum * std::exp(-1);
    sum = before + 1;
    mean += (static_cast<double>(i) - mean) / sum;
    EXPECT_NEAR(rising.y[static_cast<size_t>(i)], mean, kF32 * std::max(1.0, mean));
    EXPECT_NEAR(rising.lse[static_cast<size_t>(i)], static_cast<double>(i) + std::log(sum), kSixDigits * kLine);
  }
}

TEST(Attention, TakesMinusInfinityInAWholeTile) {
  const Line line_of_both = line(1, [](int64_t j) { return j < kLine - 1 ? -kInfinity : 2.0; });
  EXPECT_EQ(line_of_both.y.back(), kLine - 1);
  EXPECT_EQ(line_of_both.lse.back(), 2);
  EXPECT_TRUE(std::isnan(line_of_both.y[kLine - 2]));  // as exp(-Inf) / 0
}

// With q = 0 all weights of a row are equal: y is the running mean of v.
TEST(Attention, AveragesWhereAllScoresAreEqual) {
  constexpr int64_t kLength = 8192, kSize = 3;
  const Shape shape{1, kLength, kSize};
  const Tensor v = random("v", shape);
  const Values y = attention(zeros(shape, DType::f32), random("k", shape), v, {}).values(), v_values = v.values();
  Values sums(kSize, 0.0);
  double error = 0;
  for (size_t n = 0; n < y.size(); ++n) {
    double& sum = sums[n % kSize];
    sum += v_values[n];
    error = std::max(error, std::abs(y[n] - sum / static_cast<double>(n / kSize + 1)));
  }
  EXPECT_LE(error, kF32);
}

TEST(Attention, KeepsAConstantValueOverManyKeys) {
  const Shape shape{1, 8192, 3};
  const Tensor y = attention(random("q", shape), random("k", shape), full(shape, DType::f32, 1), {});
  expect_close(y.values(), Values(static_cast<size_t>(y.numel()), 1.0), kF32, "y");
}

TEST(Attention, SumsKeyGradientsOverTheGroup) {
  const Shape shape{1, 3, 4}, kv_shape{1, 3, 2};
  const Tensor v = from_values(kv_shape, DType::f32, {1, 10, 1, 10, 1, 10});
  const Result r = run({zeros(shape, DType::f32), random("k", kv_shape), v, full(shape, DType::f32, 1)},
                       {.num_heads = 4, .num_kv_heads = 2});
  const Values y{1, 1, 10, 10, 1, 1, 10, 10, 1, 1, 10, 10};
  const Values dv{11.0 / 3, 11.0 / 3, 5.0 / 3, 5.0 / 3, 2.0 / 3, 2.0 / 3};
  expect_close(r.y, y, kSixDigits, "y");
  expect_close(r.dv, dv, kSixDigits, "dv");
}

// Columns of kv head h repeated for each query head of its group.
Tensor repeat_heads(const Tensor& x, int64_t kv_heads, int64_t group) {
  const int64_t size = x.shape().columns() / kv_heads;
  const Values from = x.values();
  const int64_t columns = x.shape().columns() * group;
  return from_values(x.shape().with_last(columns), x.dtype(), numbers(x.numel() * group, [&](int64_t i) {
                       const int64_t row = i / columns, head = i % columns / size;
                       return from[static_cast<size_t>((row * kv_heads + head / group) * size + i % size)];
                     }));
}
Values sum_groups(const Values& repeated, int64_t size, int64_t group) {
  Values sums(repeated.size() / static_cast<size_t>(group), 0.0);
  for (size_t i = 0; i < repeated.size(); ++i) {
    const auto head = static_cast<int64_t>(i) / size, c = static_cast<int64_t>(i) % size;
    sums[static_cast<size_t>(head / group * size + c)] += repeated[i];
  }
  return sums;
}

TEST(Attention, GroupsEqualRepeatedKeysAndValues) {
  constexpr int64_t kHeads = 6, kSize = 5, kLength = 70;
  for (const int64_t kv_heads : {1, 2, 3, 6}) {
    const int64_t group = kHeads / kv_heads;
    const Inputs in = random_inputs({2, kLength, kHeads * kSize}, {2, kLength, kv_heads * kSize});
    const Result grouped = run(in, {.num_heads = kHeads, .num_kv_heads = kv_heads});
    const Result repeated = run({in.q, repeat_heads(in.k, kv_heads, group), repeat_heads(in.v, kv_heads, group), in.dy},
                                {.num_heads = kHeads});
    SCOPED_TRACE(kv_heads);
    expect_close(grouped.y, repeated.y, kSixDigits, "y");
    expect_close(grouped.dq, repeated.dq, kSixDigits, "dq");
    expect_close(grouped.dk, sum_groups(repeated.dk, kSize, group), kSixDigits, "dk");
    expect_close(grouped.dv, sum_groups(repeated.dv, kSize, group), kSixDigits, "dv");
  }
}

TEST(Attention, TakesEveryLengthHeadSizeAndBatch) {
  int64_t turn = 0;
  for (const int64_t length : {1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 192, 193, 257, 300}) {
    for (const int64_t size : {1, 3, 5, 8, 16, 24, 63, 64, 65, 80, 128, 256}) {
      // Each size meets small and large batches; long sequences only small ones, for time.
      const int64_t batch = length * length * size > 1 << 18 ? 1 : 1 + turn++ % 17, heads = 1 + turn % 2;
      const Plain plain{batch, length, heads, size};
      const Shape shape{batch, length, heads * size};
      const Inputs in = random_inputs(shape, shape);
      const Result got = run(in, {.num_heads = heads});
      const Result want = plain.run(in.q.values(), in.k.values(), in.v.values(), in.dy.values());
      SCOPED_TRACE(fmt::format("batch {} length {} heads {} head size {}", batch, length, heads, size));
      expect_close(got.y, want.y, kF32, "y");
      expect_close(got.dq, want.dq, kF32, "dq");
      expect_close(got.dk, want.dk, kF32, "dk");
      expect_close(got.dv, want.dv, kF32, "dv");
    }
  }
}

}  // namespace
}  // namespace heed::test
