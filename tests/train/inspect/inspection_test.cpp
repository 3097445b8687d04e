// Models whose heads were set by hand, and whether inspect() finds what they do.
#include "train/inspect/inspection.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/attention/attention.hpp"
#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"
#include "train/inspect/attention_pattern.hpp"

namespace heed::train {
namespace {

constexpr int64_t kVocab = 8, kLength = 16, kWidth = 32, kHeadSize = 16;
const std::vector<int64_t> kLengths = {kLength, kLength};

// Two layers of two heads. Columns 0 to 7 of the residual stream are the token, 8 to 23 the position, 24 to 31 the
// token before, which head 0.0 writes there: it attends to the previous token. Head 1.0 attends to the tokens whose
// previous token is the query's, and writes nothing. The other heads have no weights, so they attend to all keys alike.
class PlantedHeads : public testing::Test {
 protected:
  PlantedHeads() {
    for (const nn::ParameterStore::Entry& entry : model_.parameters().entries()) {
      if (entry.shape.rank() == 2) fill_zero(entry.values.ref());
    }
    for (int64_t v = 0; v < kVocab; ++v) set("token_embedding.weight", v, v, 1);
    for (int64_t t = 0; t < kLength; ++t) set("position_embedding.weight", t, kVocab + t, 1);
    constexpr double kSharp = 6;
    const std::string previous = "blocks.0.attention.", induction = "blocks.1.attention.";
    for (int64_t t = 0; t + 1 < kLength; ++t) set(previous + "qkv.weight", t, kVocab + t + 1, kSharp);  // query t + 1
    for (int64_t t = 0; t < kLength; ++t) set(previous + "qkv.weight", 2 * kHeadSize + t, kVocab + t, kSharp);
    for (int64_t v = 0; v < kVocab; ++v) {
      set(previous + "qkv.weight", 4 * kHeadSize + v, v, 1);
      set(previous + "projection.weight", kVocab + kLength + v, v, 1);
      set(induction + "qkv.weight", v, v, kSharp);
      set(induction + "qkv.weight", 2 * kHeadSize + v, kVocab + kLength + v, kSharp);
    }
  }

  void set(const std::string& parameter, int64_t row, int64_t column, double value) {
    const nn::ParameterStore::Entry& entry = model_.parameters().entry(parameter);
    entry.values.data<float>()[row * entry.shape[1] + column] = static_cast<float>(value);
  }

  // Two sequences, of a block of 8 tokens that is repeated.
  static data::Batch sequences() {
    const std::vector<int32_t> blocks[] = {{3, 1, 4, 0, 5, 2, 6, 7}, {7, 0, 2, 5, 1, 3, 4, 6}};
    data::Batch batch{.rows = 2, .seq_len = kLength, .inputs = {}, .targets = {}};
    for (const auto& block : blocks) {
      for (int64_t t = 0; t < kLength; ++t) {
        batch.inputs.push_back(block[t % 8]);
        batch.targets.push_back(block[(t + 1) % 8]);
      }
    }
    return batch;
  }

  nn::Gpt model_{{.vocab_size = kVocab, .num_layers = 2, .d_model = kWidth, .num_heads = 2, .seq_len = kLength},
                 DType::f32};
};

TEST_F(PlantedHeads, AreNamed) {
  const Inspection found = inspect(model_, sequences(), kLengths, std::nullopt);
  EXPECT_EQ(found.heads[0][0].name.name, "previous token");
  EXPECT_EQ(found.heads[1][0].name.name, "induction");
  EXPECT_EQ(found.heads[0][1].name.name, "mixed");
  EXPECT_EQ(found.heads[1][1].name.name, "mixed");
  // These scores can be 15/16 and 8/16 at most. Token 0 is its own previous token too: query 8 attends to it and to
  // token 1 alike.
  EXPECT_GT(found.heads[0][0].scores.of(HeadScore::previous), 0.93);
  EXPECT_GT(found.heads[1][0].scores.of(HeadScore::induction), 0.46);
  EXPECT_NEAR(found.heads[0][1].scores.entropy, found.range.uniform.entropy, test::kF32);
}

TEST_F(PlantedHeads, OnlyAHeadThatIsUsedContributes) {
  const Inspection found = inspect(model_, sequences(), kLengths, std::nullopt);
  EXPECT_GT(std::abs(found.heads[0][0].mean_ablation), test::kTransformerLens);  // writes to the residual stream
  EXPECT_NEAR(found.heads[1][0].mean_ablation, 0, test::kF32);
  EXPECT_NEAR(found.heads[0][1].mean_ablation, 0, test::kF32);
}

TEST_F(PlantedHeads, PatternsAreProbabilitiesOfThePast) {
  const Inspection found = inspect(model_, sequences(), kLengths, std::nullopt);
  const std::vector<double> patterns = found.patterns.values();
  ASSERT_EQ(patterns.size(), 2 * 2 * kLength * kLength);
  for (int64_t row = 0; row < 4 * kLength; ++row) {
    double sum = 0;
    for (int64_t j = 0; j < kLength; ++j) {
      const double p = patterns[row * kLength + j];
      if (j > row % kLength) {
        EXPECT_EQ(p, 0);
      }
      sum += p;
    }
    EXPECT_NEAR(sum, 1, test::kSixDigits);
  }
}

TEST_F(PlantedHeads, LossesAreThoseOfTheModel) {
  const data::Batch batch = sequences();
  const Inspection found = inspect(model_, batch, kLengths, std::nullopt);
  const NoGradGuard no_grad;
  const Shape shape{batch.rows, batch.seq_len};
  const double loss = model_.loss(from_tokens(shape, batch.inputs), from_tokens(shape, batch.targets), {}).item();
  EXPECT_NEAR(found.loss, loss, test::kF32);
  EXPECT_NEAR(found.layers[2].lens_loss, loss, test::kF32);  // after the last block the lens is the model
  double by_position = 0, of_first = 0;
  for (const double one : found.position_loss) by_position += one / kLength;
  for (const InspectedToken& token : found.tokens) {
    of_first += token.loss;
    EXPECT_NEAR(token.loss, token.lens_loss.back(), test::kF32);
    EXPECT_EQ(token.top.size(), 3);
  }
  EXPECT_NEAR(by_position, loss, test::kF32);
  const Tensor first = from_tokens({1, kLength}, {batch.inputs.begin(), batch.inputs.begin() + kLength});
  const Tensor targets = from_tokens({1, kLength}, {batch.targets.begin(), batch.targets.begin() + kLength});
  EXPECT_NEAR(of_first / kLength, model_.loss(first, targets, {}).item(), test::kF32);
}

// A sequence that is padded gives what it gives alone.
TEST_F(PlantedHeads, PaddingCountsInNothing) {
  constexpr int64_t kShort = 5;
  const std::vector<int32_t> tokens = {3, 1, 4, 3, 1}, targets = {1, 4, 3, 1, 0};
  const data::Batch alone{.rows = 1, .seq_len = kShort, .inputs = tokens, .targets = targets};
  data::Batch padded{.rows = 1, .seq_len = kLength, .inputs = tokens, .targets = targets};
  padded.inputs.resize(kLength, 0);
  padded.targets.resize(kLength, data::kIgnoreTarget);
  EXPECT_EQ(lengths_by_targets(padded), std::vector<int64_t>{kShort});
  const Inspection a = inspect(model_, alone, lengths_by_targets(alone), std::nullopt);
  const Inspection b = inspect(model_, padded, lengths_by_targets(padded), std::nullopt);
  EXPECT_NEAR(a.loss, b.loss, test::kF32);
  EXPECT_EQ(a.tokens.size(), b.tokens.size());
  EXPECT_EQ(a.patterns.shape(), b.patterns.shape());
  for (size_t layer = 0; layer < a.heads.size(); ++layer) {
    EXPECT_NEAR(a.layers[layer].residual_rms, b.layers[layer].residual_rms, test::kF32);
    for (size_t h = 0; h < a.heads[layer].size(); ++h) {
      const InspectedHead &x = a.heads[layer][h], &y = b.heads[layer][h];
      EXPECT_EQ(x.name.name, y.name.name);
      EXPECT_NEAR(x.mean_ablation, y.mean_ablation, test::kF32);
      EXPECT_NEAR(x.scores.entropy, y.scores.entropy, test::kF32);
      EXPECT_NEAR(x.scores.of(HeadScore::induction), y.scores.of(HeadScore::induction), test::kF32);
    }
  }
}

TEST_F(PlantedHeads, GradientsAreThoseOfTheMeanLoss) {
  const data::Batch batch = sequences();
  const Inspection found = inspect(model_, batch, kLengths, std::nullopt);
  model_.parameters().zero_gradients();
  const Shape shape{batch.rows, batch.seq_len};
  backward(model_.loss(from_tokens(shape, batch.inputs), from_tokens(shape, batch.targets), {}));
  double squares = 0, expected = 0;
  for (const InspectedLayer& layer : found.layers) squares += layer.gradient_norm * layer.gradient_norm;
  for (const nn::ParameterStore::Entry& entry : model_.parameters().entries()) {
    for (const double g : entry.tensor.grad().values()) expected += g * g;
  }
  EXPECT_GT(expected, 0);
  EXPECT_NEAR(std::sqrt(squares / expected), 1, test::kF32);
}

// P v, with P from attention_pattern(), is what attention computes: also for grouped KV heads, with every mask, and in
// bf16.
TEST(AttentionPattern, IsWhatAttentionMultipliesTheValuesWith) {
  constexpr int64_t kBatch = 2, kTokens = 7, kHeads = 6, kKvHeads = 2, kSize = 5;
  const std::vector<int32_t> tokens{1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1};
  const AttentionOptions plain{.num_heads = kHeads, .num_kv_heads = kKvHeads};
  AttentionOptions masked = plain;
  masked.window = 3;
  masked.alibi = true;
  masked.documents = document_ranges(from_tokens({kBatch, kTokens}, tokens), 0);
  AttentionOptions scaled = plain;
  scaled.scale = 2;
  for (const auto& [dtype, options] :
       {std::pair(DType::f32, plain), {DType::f32, masked}, {DType::f32, scaled}, {DType::bf16, plain}}) {
    std::vector<double> numbers(kBatch * kTokens * (kHeads + 2 * kKvHeads) * kSize);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i * i % 1009));
    const Tensor qkv = from_values({kBatch, kTokens, (kHeads + 2 * kKvHeads) * kSize}, dtype, numbers);
    const std::vector<double> y = attention_packed(qkv, options).values();
    const std::vector<double> pattern = attention_pattern(qkv, options).values(), values = qkv.values();
    for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
      const int64_t c = i % kSize, h = i / kSize % kHeads, t = i / kSize / kHeads % kTokens,
                    b = i / kSize / kHeads / kTokens;
      double expected = 0;
      for (int64_t j = 0; j < kTokens; ++j) {
        const int64_t v =
            ((b * kTokens + j) * (kHeads + 2 * kKvHeads) + kHeads + kKvHeads + h * kKvHeads / kHeads) * kSize + c;
        expected += pattern[((b * kHeads + h) * kTokens + t) * kTokens + j] * values[v];
      }
      EXPECT_NEAR(y[i], expected, dtype == DType::f32 ? test::kF32 : test::kBf16Epsilon);
    }
  }
}

TEST(Inspect, RefusesSequencesWithoutATarget) {
  nn::Gpt model({.vocab_size = 3, .num_layers = 1, .d_model = 4, .num_heads = 1, .seq_len = 2}, DType::f32);
  const data::Batch batch{.rows = 1, .seq_len = 2, .inputs = {0, 1}, .targets = {-1, -1}};
  EXPECT_THROW(inspect(model, batch, std::vector<int64_t>{2}, std::nullopt), DataError);
}

}  // namespace
}  // namespace heed::train
