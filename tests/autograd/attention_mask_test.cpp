// Masks, dropout, layouts and memory of attention: what must be exact.
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/dropout.hpp"
#include "tests/autograd/attention_poison.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

TEST(AttentionMask, PaddingIsNeverTouched) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    // Of heads of whole cache lines the rows are read where they are.
    for (const int64_t head_size : {7, 16}) expect_padding_untouched({.dtype = dtype, .head_size = head_size});
  }
}

// A query that no key is valid for, and queries before the first key.
TEST(AttentionMask, QueriesWithoutKeysGiveExactZeros) {
  const Inputs in = random_inputs({2, 40, 6}, {2, 10, 6});
  const Result r = run(in, {.num_heads = 2, .lengths = from_tokens({2}, {0, 10})});
  const auto sees_none = [](int64_t b, int64_t t) { return b == 0 || t < 30; };
  expect_zeros(rows_of(r.y, in.q.shape(), sees_none));
  expect_zeros(rows_of(r.dq, in.q.shape(), sees_none));
  const auto unseen = [](int64_t b, int64_t) { return b == 0; };
  expect_zeros(rows_of(r.dk, in.k.shape(), unseen));
  expect_zeros(rows_of(r.dv, in.k.shape(), unseen));
}

TEST(AttentionMask, ThereMayBeNoKeyQueryOrSequence) {
  const auto empty_or = [](int64_t batch, int64_t queries, int64_t keys) {
    const Result r = run(random_inputs({batch, queries, 4}, {batch, keys, 4}), {.num_heads = 2});
    for (const Values* values : {&r.y, &r.dq, &r.dk, &r.dv}) {
      for (const double v : *values) EXPECT_EQ(v, 0.0);
    }
  };
  empty_or(2, 3, 0);
  empty_or(2, 0, 3);
  empty_or(0, 3, 3);
}

TEST(AttentionMask, TheFutureIsNeverTouched) {
  expect_future_untouched({.head_size = 5}, 150, {0, 1, 7, 63, 64, 70, 130, 149});
  expect_future_untouched({.head_size = 16}, 152, {0, 1, 7, 63, 64, 70, 130, 151});
}

const RandomStream kRandom{.seed = 5, .site = random_site(RandomDomain::dropout, 1, 3), .step = 17};

TEST(AttentionDropout, OfZeroChangesNoBit) {
  const Inputs in = random_inputs({2, 33, 8}, {2, 33, 8});
  for (const double p : {0.0, 0x1p-18}) {
    expect_same_bits(run(in, {.num_heads = 2}),
                     run(in, {.num_heads = 2, .dropout = p, .random = kRandom, .first_row = 4}));
  }
}

TEST(AttentionDropout, OfOneGivesExactZeros) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Inputs in = random_inputs({2, 33, 8}, {2, 33, 8}, dtype);
    for (const double p : {1.0, 1 - 0x1p-18}) {
      const Result r = run(in, {.num_heads = 2, .dropout = p, .random = kRandom});
      for (const Values* values : {&r.y, &r.dq, &r.dk, &r.dv}) expect_zeros(*values);
    }
  }
}

// With v[j] = the unit vector of j, y holds the weights; q = 0 makes them equal before dropout.
TEST(AttentionDropout, KeepsTheWeightsThatTheStreamSays) {
  constexpr int64_t kBatch = 2, kHeads = 2, kQueries = 37, kKeys = 67, kFirstRow = 6;
  constexpr double kP = 0.3;
  const int64_t width = kHeads * kKeys;
  const Tensor v = from_values({kBatch, kKeys, width}, DType::f32, numbers(kBatch * kKeys * width, [&](int64_t i) {
                                 return i % kKeys == i / width % kKeys ? 1.0 : 0.0;
                               }));
  const Values y =
      attention(zeros({kBatch, kQueries, width}, DType::f32), random("k", v.shape()), v,
                {.num_heads = kHeads, .causal = false, .dropout = kP, .random = kRandom, .first_row = kFirstRow})
          .values();
  for (int64_t n = 0; n < static_cast<int64_t>(y.size()); ++n) {
    const int64_t j = n % kKeys, h = n / kKeys % kHeads, i = n / width % kQueries, b = n / width / kQueries;
    const int64_t index = (((kFirstRow + b) * kHeads + h) * kQueries + i) * round_up(kKeys, 8) + j;
    const bool keep = kRandom.half(static_cast<uint64_t>(index)) >= dropout_threshold(kP);
    EXPECT_NEAR(y[static_cast<size_t>(n)], keep ? 1 / (1 - dropout_rate(kP)) / kKeys : 0.0, kF32 / kKeys);
  }
}

Inputs half_of(const Inputs& in, int64_t half) {
  const auto cut = [&](const Tensor& x) {
    const Shape shape{x.shape()[0] / 2, x.shape()[1], x.shape()[2]};
    return x.slice(half * shape.numel(), shape);
  };
  return {cut(in.q), cut(in.k), cut(in.v), cut(in.dy)};
}

TEST(AttentionDropout, TwoHalfBatchesAreOneBatch) {
  constexpr int64_t kBatch = 4;
  const Inputs in = random_inputs({kBatch, 130, 3 * 5}, {kBatch, 130, 3 * 5});
  const AttentionOptions options{.num_heads = 3, .dropout = 0.2, .random = kRandom, .first_row = 8};
  const Result whole = run(in, options);
  AttentionOptions second = options;
  second.first_row += kBatch / 2;
  const Result first_half = run(half_of(in, 0), options), second_half = run(half_of(in, 1), second);
  for (const auto part : {&Result::y, &Result::dq, &Result::dk, &Result::dv}) {
    Values joined = first_half.*part;
    joined.insert(joined.end(), (second_half.*part).begin(), (second_half.*part).end());
    expect_same_bits(whole.*part, joined);
  }
}

// Few heads are shared out by tiles, many by heads: the bits are the same.
TEST(AttentionThreads, NeverChangeABit) {
  const int threads = cpu::max_threads();
  for (const int64_t heads : {1, 5}) {
    const Inputs in = random_inputs({1, 330, heads * 16}, {1, 330, heads * 16});
    const AttentionOptions options{.num_heads = heads, .dropout = 0.1, .random = kRandom};
    cpu::set_max_threads(1);
    const Result one = run(in, options);
    for (const int count : {2, 3, 16}) {
      cpu::set_max_threads(count);
      expect_same_bits(one, run(in, options));
    }
    cpu::set_max_threads(threads);
  }
}

TEST(AttentionPacked, IsAttentionOfItsParts) {
  constexpr int64_t kBatch = 2, kLength = 70, kHeads = 4, kKvHeads = 2, kSize = 5;
  constexpr int64_t kColumns = (kHeads + 2 * kKvHeads) * kSize;
  const Tensor qkv = random("qkv", {kBatch, kLength, kColumns}), dy = random("dy", {kBatch, kLength, kHeads * kSize});
  const AttentionOptions options{.num_heads = kHeads, .num_kv_heads = kKvHeads};
  const auto part = [&](const Values& packed, int64_t first, int64_t heads) {
    Values columns;
    for (int64_t i = 0; i < kBatch * kLength * kColumns; ++i) {
      const int64_t head = i % kColumns / kSize;
      if (head >= first && head < first + heads) columns.push_back(packed[static_cast<size_t>(i)]);
    }
    return columns;
  };
  const auto tensor = [&](int64_t first, int64_t heads) {
    return from_values({kBatch, kLength, heads * kSize}, DType::f32, part(qkv.values(), first, heads));
  };
  const Result parts =
      run({tensor(0, kHeads), tensor(kHeads, kKvHeads), tensor(kHeads + kKvHeads, kKvHeads), dy}, options);
  qkv.set_requires_grad(true);
  const Tensor y = attention_packed(qkv, options);
  backward(y, dy);
  const Values gradient = qkv.grad().values();
  expect_same_bits(parts, {y.values(), part(gradient, 0, kHeads), part(gradient, kHeads, kKvHeads),
                           part(gradient, kHeads + kKvHeads, kKvHeads)});
}

int64_t peak_bytes(int64_t length) {
  constexpr int64_t kHeads = 4, kWidth = 128;
  const Tensor qkv = random("qkv", {1, length, 3 * kWidth}), dy = random("dy", {1, length, kWidth});
  qkv.set_requires_grad(true);
  const int64_t before = memory_report(Device::cpu).total.current_bytes;
  reset_memory_peaks(Device::cpu);
  backward(attention_packed(qkv, {.num_heads = kHeads}), dy);
  return memory_report(Device::cpu).total.peak_bytes - before;
}

TEST(AttentionMemory, GrowsWithTheLengthNotItsSquare) {
  EXPECT_LE(static_cast<double>(peak_bytes(4096)), 2.2 * static_cast<double>(peak_bytes(2048)));
}

}  // namespace
}  // namespace heed::test
