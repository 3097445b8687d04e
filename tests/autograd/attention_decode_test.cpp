// One query per sequence, which has its own kernel, against the last of two queries, which have the general one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/tape.hpp"
#include "tests/autograd/attention_run.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

constexpr int64_t kBatch = 3;

double bound_of(DType dtype) { return dtype == DType::f64 ? kF64 : dtype == DType::f32 ? kF32 : kBf16Epsilon; }

// The last query of each sequence: q (B, 2, C) -> (B, 1, C).
Tensor last_query(const Tensor& q) {
  const int64_t width = q.shape()[2];
  const Values all = q.values();
  Values last;
  for (int64_t b = 0; b < q.shape()[0]; ++b) {
    const auto row = all.begin() + (2 * b + 1) * width;
    last.insert(last.end(), row, row + width);
  }
  return from_values({q.shape()[0], 1, width}, q.dtype(), last);
}

void expect_last_of_two(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Tensor expected = last_query(attention(q, k, v, options));
  const Tensor got = attention(last_query(q), k, v, options);
  ASSERT_EQ(got.shape(), expected.shape());
  const Values a = got.values(), b = expected.values();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], bound_of(q.dtype()) * std::max(1.0, std::abs(b[i]))) << "element " << i;
  }
}

TEST(AttentionDecode, GivesTheLastOfTwoQueries) {
  const NoGradGuard no_grad;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const int64_t keys : {3, 63, 64, 65, 200}) {
      for (const int64_t head_size : {1, 5, 16, 64, 72}) {
        for (const int64_t kv_heads : {1, 2, 4}) {
          const Tensor q = random("q", {kBatch, 2, 4 * head_size}, dtype);
          const Tensor k = random("k", {kBatch, keys, kv_heads * head_size}, dtype);
          const Tensor v = random("v", {kBatch, keys, kv_heads * head_size}, dtype);
          SCOPED_TRACE(testing::Message() << keys << " keys, head size " << head_size << ", kv heads " << kv_heads);
          expect_last_of_two(q, k, v, {.num_heads = 4, .num_kv_heads = kv_heads});
          expect_last_of_two(q, k, v, {.num_heads = 4, .num_kv_heads = kv_heads, .window = 70, .alibi = true});
        }
      }
    }
  }
}

TEST(AttentionDecode, SkipsPaddingAndRowsThatAreNoKeys) {
  const NoGradGuard no_grad;
  constexpr int64_t kKeys = 130, kRows = 150, kSize = 8;
  const Tensor lengths = from_tokens({kBatch}, {130, 0, 67});
  for (const PaddingSide side : {PaddingSide::left, PaddingSide::right}) {
    const Tensor q = random("q", {kBatch, 2, 2 * kSize});
    const Tensor k = random("k", {kBatch, kRows, 2 * kSize}), v = random("v", {kBatch, kRows, 2 * kSize});
    // What is not a key must not be read: a NaN would show.
    for (int64_t b = 0; b < kBatch; ++b) {
      const int64_t length = lengths.data<int32_t>()[b], first = side == PaddingSide::left ? kKeys - length : 0;
      for (int64_t t = 0; t < kRows; ++t) {
        if (first <= t && t < first + length) continue;
        std::fill_n(k.data<float>() + (b * kRows + t) * 2 * kSize, 2 * kSize, NAN);
        std::fill_n(v.data<float>() + (b * kRows + t) * 2 * kSize, 2 * kSize, NAN);
      }
    }
    const AttentionOptions options{.num_heads = 2, .lengths = lengths, .side = side, .num_keys = kKeys};
    expect_last_of_two(q, k, v, options);
    const Values y = attention(last_query(q), k, v, options).values();
    EXPECT_TRUE(std::all_of(y.begin() + 2 * kSize, y.begin() + 4 * kSize, [](double value) { return value == 0; }));
  }
}

TEST(AttentionDecode, HasTheSameBitsForAnyThreads) {
  const NoGradGuard no_grad;
  const Tensor q = random("q", {kBatch, 1, 512}), k = random("k", {kBatch, 300, 128}),
               v = random("v", {kBatch, 300, 128});
  const AttentionOptions options{.num_heads = 8, .num_kv_heads = 2};
  const int threads = cpu::max_threads();
  cpu::set_max_threads(1);
  const Values expected = attention(q, k, v, options).values();
  for (const int count : {2, 3}) {
    cpu::set_max_threads(count);
    EXPECT_EQ(attention(q, k, v, options).values(), expected) << count;
  }
  cpu::set_max_threads(threads);
}

TEST(AttentionDecode, ShowsNanAndInfinity) {
  const NoGradGuard no_grad;
  for (const double bad : {double{NAN}, double{INFINITY}}) {
    const Tensor q = full({1, 1, 4}, DType::f32, 1.0), k = full({1, 100, 4}, DType::f32, 1.0), v = k.clone();
    k.data<float>()[4 * 70] = static_cast<float>(bad);
    EXPECT_TRUE(std::isnan(attention(q, k, v, {}).values()[0])) << bad;
  }
}

// The last query sees all keys: equal scores give the mean of the values before it, 1 to 4 and 1 to 5. A mask that is
// aligned at the first key would give 1 and 1.5.
TEST(AttentionDecode, AlignsTheMaskAtTheLastKey) {
  const NoGradGuard no_grad;
  const Tensor q = zeros({1, 2, 1}, DType::f64), k = zeros({1, 5, 1}, DType::f64);
  const Tensor v = from_values({1, 5, 1}, DType::f64, {1, 2, 3, 4, 5});
  EXPECT_EQ(attention(q, k, v, {}).values(), (Values{2.5, 3}));
  EXPECT_EQ(attention(q.slice(1, {1, 1, 1}), k, v, {}).values(), (Values{3}));
}

TEST(AttentionDecode, NumKeysIsForACacheOnly) {
  const Tensor q = random("q", {1, 1, 4}), k = random("k", {1, 5, 4});
  EXPECT_THROW(attention(q, k, k, {.num_keys = 3}), GraphError);
  const NoGradGuard no_grad;
  EXPECT_THROW(attention(q, k, k, {.num_keys = 6}), ShapeError);
  EXPECT_THROW(attention_packed(random("qkv", {1, 2, 12}), {.num_keys = 1}), ValueError);
}

}  // namespace
}  // namespace heed::test
