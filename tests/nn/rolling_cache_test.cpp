// With sliding windows the cache drops what no later token attends to; the logits stay those of the whole sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/tape.hpp"
#include "nn/gpt.hpp"
#include "nn/kv_cache.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::nn {
namespace {

constexpr int64_t kLength = 300, kWindow = 5, kMemory = kWindow - 1 + 128;
constexpr int32_t kVocab = 7;

GptConfig small(Position position, const char* pattern) {
  GptConfig config{.vocab_size = kVocab, .num_layers = 3, .d_model = 16, .num_heads = 4, .num_kv_heads = 2};
  config.seq_len = kLength;
  config.position = position;
  config.sliding_window = kWindow;
  config.window_pattern = pattern;
  config.init_std = 0.4;
  return config;
}

std::vector<GptConfig> forms() {
  std::vector<GptConfig> all;
  for (const Position position :
       {Position::learned, Position::sinusoidal, Position::rope, Position::alibi, Position::none}) {
    for (const char* pattern : {"S", "SL"}) all.push_back(small(position, pattern));
  }
  return all;
}

std::vector<int32_t> some_tokens(int64_t count, int64_t seed = 1) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((i * i + 3 * i * seed + seed) % kVocab));
  return tokens;
}

Tensor rows(const std::vector<std::vector<int32_t>>& sequences) {
  std::vector<int32_t> all;
  for (const std::vector<int32_t>& one : sequences) all.insert(all.end(), one.begin(), one.end());
  return from_tokens({std::ssize(sequences), std::ssize(sequences.front())}, all);
}

// The logits after the first `count` tokens.
std::vector<double> expected(const Gpt& model, const std::vector<int32_t>& tokens, int64_t count) {
  const std::vector<double> all = model.logits(rows({{tokens.begin(), tokens.begin() + count}}), {}).values();
  return {all.end() - kVocab, all.end()};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], bound * (1 + std::abs(expected[i]))) << i;
}

class RollingCache : public testing::TestWithParam<std::pair<DType, double>> {};

// A prompt in chunks, then one token after the other, over several moves of the rows.
TEST_P(RollingCache, GivesTheLogitsOfTheWholeSequence) {
  const auto [dtype, bound] = GetParam();
  const NoGradGuard no_grad;
  const std::vector<int32_t> tokens = some_tokens(kLength);
  for (const GptConfig& config : forms()) {
    const Gpt model(config, dtype);
    for (const auto& [prompt, chunk] : {std::pair<int64_t, int64_t>{1, 1}, {69, 512}, {150, 7}, {kLength, 128}}) {
      SCOPED_TRACE(testing::Message() << config.window_pattern << ", a prompt of " << prompt);
      KvCache cache(config);
      Tensor logits = model.next_logits(rows({{tokens.begin(), tokens.begin() + prompt}}), cache, chunk);
      expect_near(logits.values(), expected(model, tokens, prompt), bound);
      for (int64_t t = prompt; t < kLength; ++t) {
        logits = model.next_logits(rows({{tokens[static_cast<size_t>(t)]}}), cache);
        if (t % 29 == 0) expect_near(logits.values(), expected(model, tokens, t + 1), bound);
      }
      EXPECT_EQ(cache.length(), kLength);
      EXPECT_LE(cache.rows(0), kMemory);
      EXPECT_EQ(cache.rows(1) == kLength, config.window_pattern == "SL");
      cache.clear();
      EXPECT_EQ(cache.rows(0), 0);
      logits = model.next_logits(rows({{tokens.begin(), tokens.begin() + 9}}), cache);
      expect_near(logits.values(), expected(model, tokens, 9), bound);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Precisions, RollingCache,
                         testing::Values(std::pair{DType::f64, test::kKvCacheF64}, std::pair{DType::f32, test::kF32}));

// Three sequences of different lengths, of which one leaves: the padding is dropped with the rows that hold it.
TEST(RollingCaches, HoldBatches) {
  const NoGradGuard no_grad;
  const std::vector<int64_t> padding{90, 0, 3};
  for (const GptConfig& config : forms()) {
    const Gpt model(config, DType::f64);
    std::vector<std::vector<int32_t>> sequences;
    for (int64_t b = 0; b < 3; ++b) sequences.push_back(some_tokens(kLength, b + 1));
    KvCache cache(config, 3);
    cache.clear(padding);
    std::vector<int64_t> kept{0, 1, 2};
    for (int64_t t = 0; t < 285; ++t) {
      if (t == 120) {
        cache.keep({0, 2});
        kept = {0, 2};
      }
      std::vector<std::vector<int32_t>> fresh;
      for (const int64_t b : kept)
        fresh.push_back({sequences[b][static_cast<size_t>(std::max<int64_t>(0, t - padding[b]))]});
      if (t == 0) {  // a first chunk, so that each sequence has a token
        for (size_t b = 0; b < 3; ++b) {
          fresh[b].assign(static_cast<size_t>(padding[b]), 0);
          fresh[b].insert(fresh[b].end(), sequences[b].begin(), sequences[b].begin() + 100 - padding[b]);
        }
        t = 99;
      }
      const std::vector<double> logits = model.next_logits(rows(fresh), cache).values();
      for (size_t i = 0; i < kept.size() && t % 7 == 0; ++i) {
        const int64_t b = kept[i];
        expect_near({logits.begin() + static_cast<std::ptrdiff_t>(i) * kVocab,
                     logits.begin() + static_cast<std::ptrdiff_t>(i + 1) * kVocab},
                    expected(model, sequences[b], t + 1 - padding[b]), test::kKvCacheF64);
      }
    }
  }
}

// With windows in all layers and positions that depend on distances, a sequence may go on beyond seq_len.
TEST(RollingCaches, GoOnWithoutAnEnd) {
  const NoGradGuard no_grad;
  for (GptConfig config : forms()) {
    const bool by_distance = config.position != Position::learned && config.position != Position::sinusoidal;
    EXPECT_EQ(config.is_unbounded(), config.window_pattern == "S" && by_distance);
    if (!config.is_unbounded()) continue;
    config.seq_len = kWindow - 1;
    EXPECT_FALSE(config.is_unbounded()) << "training has not shown distances as long as the window";
    config.seq_len = 16;
    const Gpt model(config, DType::f64);
    KvCache cache(config, 1, kLength);
    const std::vector<int32_t> tokens = some_tokens(kLength);
    expect_near(model.next_logits(rows({tokens}), cache).values(), expected(model, tokens, kLength), test::kKvCacheF64);
  }
}

TEST(RollingCaches, TakeTheMemoryOfTheirWindows) {
  const NoGradGuard no_grad;
  const GptConfig config = small(Position::rope, "SSL");
  const Gpt model(config, DType::f32);
  KvCache cache(config, 1, 1000);
  EXPECT_EQ(cache.max_fresh(), 128);
  model.next_logits(rows({{1}}), cache);
  EXPECT_EQ(cache.bytes(), (2 * kMemory + 1000) * 2 * 8 * 4);
  EXPECT_EQ(cache.describe(), "(2 layers x 132 tokens + 1 layer x 1000 tokens) x 2 x 8 f32 = 79.0 KiB");
  const Tensor many = zeros({1, 129, 8}, DType::f32);
  EXPECT_THROW(cache.append(0, {many, many}), ShapeError);
}

}  // namespace
}  // namespace heed::nn
