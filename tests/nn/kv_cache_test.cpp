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

// Pre- and Post-LN with MHA, GQA and MQA and all positions; bias, tied head, dropout and the part of a head that RoPE
// rotates vary along.
std::vector<GptConfig> forms() {
  std::vector<GptConfig> result;
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
    for (const int64_t kv_heads : {4, 2, 1}) {
      for (const Position position : {Position::learned, Position::sinusoidal, Position::rope, Position::none}) {
        GptConfig config{.vocab_size = kVocab, .num_layers = 3, .d_model = 24, .num_heads = 4};
        config.num_kv_heads = kv_heads;
        config.seq_len = kSeqLen;
        config.norm_position = norm;
        config.position = position;
        if (kv_heads == 2) config.rope_fraction = 0.667;
        if (kv_heads == 1) config.logit_softcap = 2;
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
  const DType dtype = GetParam().first;
  const double bound = GetParam().second;
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
                         testing::Values(std::pair{DType::f64, test::kKvCacheF64}, std::pair{DType::f32, test::kF32}));

// The tokens of sequence b of a batch.
std::vector<int32_t> sequence(int64_t b, int64_t length) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>((i * i + (b + 2) * i + b) % kVocab));
  return tokens;
}

// Sequences of different lengths, aligned at their last token: (B, T) from column `first` on.
Tensor columns(const std::vector<std::vector<int32_t>>& sequences, int64_t longest, int64_t first, int64_t count) {
  std::vector<int32_t> tokens;
  for (const std::vector<int32_t>& one : sequences) {
    std::vector<int32_t> row(static_cast<size_t>(longest) - one.size(), kVocab - 1);
    row.insert(row.end(), one.begin(), one.end());
    tokens.insert(tokens.end(), row.begin() + first, row.begin() + first + count);
  }
  return from_tokens({std::ssize(sequences), count}, tokens);
}

void expect_rows(const Gpt& model, const Tensor& logits, const std::vector<std::vector<int32_t>>& sequences,
                 double bound) {
  ASSERT_EQ(logits.shape(), (Shape{std::ssize(sequences), kVocab}));
  const std::vector<double> all = logits.values();
  for (size_t b = 0; b < sequences.size(); ++b) {
    SCOPED_TRACE(testing::Message() << "sequence " << b << " of " << sequences.size());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(b) * kVocab;
    expect_near({begin, begin + kVocab}, last_row(model, sequences[b]), bound);
  }
}

// Prompts of 5, 1, 8 and 7 tokens in chunks, then two tokens of each, then of the two that stay.
TEST_P(KvCacheForms, GiveTheLogitsOfEachSequenceOfABatch) {
  const DType dtype = GetParam().first;
  const double bound = GetParam().second;
  const NoGradGuard no_grad;
  for (const GptConfig& config : forms()) {
    const Gpt model(config, dtype);
    shake_biases_and_gains(model);
    for (const int64_t chunk : {1, 3, 8, 512}) {
      KvCache cache(config, 4);
      std::vector<std::vector<int32_t>> sequences;
      for (const int64_t length : {5, 1, 8, 7}) sequences.push_back(sequence(std::ssize(sequences), length));
      cache.clear({3, 7, 0, 1});
      expect_rows(model, model.next_logits(columns(sequences, 8, 0, 8), cache, chunk), sequences, bound);
      const auto add_token = [&](int64_t longest) {
        for (size_t b = 0; b < sequences.size(); ++b)
          sequences[b].push_back(static_cast<int32_t>((3 * b + longest) % 7));
        expect_rows(model, model.next_logits(columns(sequences, longest, longest - 1, 1), cache), sequences, bound);
      };
      add_token(9);
      add_token(10);
      cache.keep({1, 3});
      sequences = {sequences[1], sequences[3]};
      add_token(11);
      EXPECT_EQ(cache.batch(), 2);
      EXPECT_EQ(cache.padding(), (std::vector<int64_t>{7, 1}));
    }
  }
}

// A chunk may lie in the padding of a sequence as a whole.
TEST_P(KvCacheForms, GiveTheSameLogitsInChunks) {
  const DType dtype = GetParam().first;
  const double bound = GetParam().second;
  const NoGradGuard no_grad;
  for (const GptConfig& config : forms()) {
    const Gpt model(config, dtype);
    const std::vector<int32_t> tokens = some_tokens(kSeqLen);
    for (const int64_t chunk : {1, 5, 11, 12, 13}) {
      KvCache cache(config);
      expect_near(model.next_logits(row(tokens), cache, chunk).values(), last_row(model, tokens), bound);
      EXPECT_EQ(cache.length(), kSeqLen);
    }
  }
}

// Positions without an end go on where the cache has room for more than seq_len.
TEST(KvCache, MayHoldMoreThanTheSequencesOfTraining) {
  const NoGradGuard no_grad;
  for (GptConfig config : forms()) {
    config.seq_len = 4;
    const Gpt model(config, DType::f64);
    KvCache cache(config, 1, kSeqLen);
    const std::vector<int32_t> tokens = some_tokens(kSeqLen);
    if (config.max_positions() == config.seq_len) {
      EXPECT_THROW(model.next_logits(row(tokens), cache), ShapeError);
      continue;
    }
    model.next_logits(row({tokens.begin(), tokens.end() - 1}), cache);
    expect_near(model.next_logits(row({tokens.back()}), cache).values(), last_row(model, tokens), test::kKvCacheF64);
  }
}

TEST(KvCache, SaysWhatItHolds) {
  const NoGradGuard no_grad;
  GptConfig config = forms().front();
  config.num_kv_heads = 2;
  const Gpt model(config, DType::f32);
  KvCache cache(config, 2, 10);
  EXPECT_EQ(cache.bytes(), 0);
  model.next_logits(from_tokens({2, 1}, {1, 2}), cache);
  EXPECT_EQ(cache.bytes(), 3 * 2 * 2 * 10 * 12 * 4);
  EXPECT_EQ(cache.describe(), "2 sequences x 3 layers x 10 tokens x 2 x 12 f32 = 5.6 KiB");
}

TEST(KvCache, RefusesPaddingAndSequencesThatItDoesNotHave) {
  const NoGradGuard no_grad;
  const GptConfig config = forms().front();
  const Gpt model(config, DType::f32);
  KvCache cache(config, 2);
  EXPECT_THROW(cache.clear({1}), ShapeError);
  EXPECT_THROW(cache.clear({-1, 0}), ShapeError);
  EXPECT_THROW(cache.clear({0, kSeqLen}), ShapeError);
  EXPECT_THROW(KvCache(config, 0), ShapeError);
  cache.clear({0, 3});
  EXPECT_THROW(model.next_logits(from_tokens({2, 3}, {1, 1, 1, 1, 1, 1}), cache), ShapeError) << "all padding";
  EXPECT_THROW(model.next_logits(from_tokens({1, 4}, {1, 1, 1, 1}), cache), ShapeError);
  for (const std::vector<int64_t>& kept : std::vector<std::vector<int64_t>>{{}, {1, 0}, {0, 0}, {2}, {-1}}) {
    EXPECT_THROW(cache.keep(kept), ShapeError);
  }
}

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
