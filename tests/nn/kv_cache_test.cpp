// With a cache a model must give what it gives without one.
#include "nn/kv_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/tape.hpp"
#include "nn/gpt.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::nn {
namespace {

constexpr int64_t kSeqLen = 12;
constexpr int32_t kVocab = 7;

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((i * i + 3 * i + 1) % kVocab));
  return tokens;
}

Tensor row(const std::vector<int32_t>& tokens) { return from_tokens({1, static_cast<int64_t>(tokens.size())}, tokens); }

// Pre- and Post-LN with MHA, GQA and MQA and all positions; bias, tied head and dropout vary along.
std::vector<GptConfig> forms() {
  std::vector<GptConfig> result;
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
    for (const int64_t kv_heads : {4, 2, 1}) {
      for (const Position position : {Position::learned, Position::sinusoidal, Position::none}) {
        GptConfig config{.vocab_size = kVocab, .num_layers = 3, .d_model = 24, .num_heads = 4};
        config.num_kv_heads = kv_heads;
        config.seq_len = kSeqLen;
        config.norm_position = norm;
        config.position = position;
        config.bias = kv_heads != 2;
        config.tie_embeddings = kv_heads != 1;
        config.dropout = config.attention_dropout = 0.3;  // must not act
        config.init_std = 0.3;
        result.push_back(config);
      }
    }
  }
  return result;
}

// Biases start at 0 and gains at 1, where nothing would show that they are missing.
void shake_biases_and_gains(const Gpt& model) {
  for (const auto& entry : model.parameters().entries()) {
    if (entry.shape.rank() != 1) continue;
    visit_floating(model.parameters().dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (int i = 0; i < entry.shape.numel(); ++i) entry.tensor.data<T>()[i] = static_cast<T>(0.5 + 0.25 * (i % 5));
    });
  }
}

std::vector<double> last_row(const Gpt& model, const std::vector<int32_t>& tokens) {
  const std::vector<double> all = model.logits(row(tokens), {}).values();
  return {all.end() - kVocab, all.end()};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  double scale = 1;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(std::abs(got[i] - expected[i]), bound * scale) << i;
}

// Parts of these sizes, one after the other, up to seq_len.
const std::vector<std::vector<int64_t>> kParts{
    {12}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 1, 1, 1, 1, 1, 1, 1}, {3, 4, 5}, {1, 11}, {11, 1}, {2, 7, 1, 2}};

class KvCacheForms : public testing::TestWithParam<std::pair<DType, double>> {};

TEST_P(KvCacheForms, GiveTheLogitsOfTheWholeSequence) {
  const auto [dtype, bound] = GetParam();
  const NoGradGuard no_grad;
  for (const GptConfig& config : forms()) {
    const Gpt model(config, dtype);
    shake_biases_and_gains(model);
    const std::vector<int32_t> tokens = some_tokens(kSeqLen);
    KvCache cache(config);
    for (const std::vector<int64_t>& parts : kParts) {
      cache.clear();
      int64_t done = 0;
      for (const int64_t part : parts) {
        const std::vector<int32_t> fresh(tokens.begin() + done, tokens.begin() + done + part);
        const Tensor logits = model.next_logits(row(fresh), cache);
        done += part;
        EXPECT_EQ(logits.shape(), (Shape{1, kVocab}));
        EXPECT_EQ(cache.length(), done);
        expect_near(logits.values(), last_row(model, {tokens.begin(), tokens.begin() + done}), bound);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Precisions, KvCacheForms,
                         testing::Values(std::pair{DType::f64, test::kF64}, std::pair{DType::f32, test::kF32}));

TEST(KvCache, ForgetsWhatWasClearedAwayOnly) {
  const NoGradGuard no_grad;
  const GptConfig config = forms().front();
  const Gpt model(config, DType::f64);
  KvCache cache(config);
  model.next_logits(row(some_tokens(kSeqLen)), cache);
  cache.clear();
  expect_near(model.next_logits(row({3, 1}), cache).values(), last_row(model, {3, 1}), test::kF64);
}

TEST(KvCache, RefusesMoreThanTheModelSees) {
  const NoGradGuard no_grad;
  const GptConfig config = forms().front();
  const Gpt model(config, DType::f32);
  KvCache cache(config);
  EXPECT_THROW(model.next_logits(row(some_tokens(kSeqLen + 1)), cache), ShapeError);
  EXPECT_THROW(model.next_logits(row({}), cache), ShapeError);
  EXPECT_THROW(model.next_logits(from_tokens({2, 1}, {1, 2}), cache), ShapeError);
  model.next_logits(row(some_tokens(kSeqLen - 1)), cache);
  EXPECT_THROW(model.next_logits(row({1, 2}), cache), ShapeError);
  EXPECT_EQ(cache.length(), kSeqLen - 1);
  EXPECT_NO_THROW(model.next_logits(row({1}), cache));
}

TEST(KvCache, RefusesAModelOfAnotherShape) {
  const NoGradGuard no_grad;
  GptConfig config = forms().front();
  const Gpt model(config, DType::f32), in_f64(config, DType::f64);
  config.num_kv_heads = 1;
  KvCache narrow(config);
  EXPECT_THROW(model.next_logits(row({1}), narrow), ShapeError);
  config = forms().front();
  config.num_layers = 1;
  KvCache low(config);
  EXPECT_THROW(model.next_logits(row({1}), low), ShapeError);
  KvCache fits(forms().front());
  model.next_logits(row({1}), fits);
  EXPECT_THROW(in_f64.next_logits(row({1}), fits), DTypeError);
}

TEST(KvCache, KeepsNoGraph) {
  const GptConfig config = forms().front();
  const Gpt model(config, DType::f32);
  KvCache cache(config);
  EXPECT_THROW(model.next_logits(row({1}), cache), GraphError);
  EXPECT_THROW(model.logits(row({1}), {.cache = &cache}), GraphError);
  EXPECT_EQ(cache.length(), 0);
  const NoGradGuard no_grad;
  model.next_logits(row({1}), cache);
  EXPECT_EQ(live_nodes(), 0);
}

}  // namespace
}  // namespace heed::nn
