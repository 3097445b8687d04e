#include "nn/gpt.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/check/gradcheck.hpp"
#include "autograd/ops/cross_entropy.hpp"
#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::nn {
namespace {

GptConfig tiny() {
  GptConfig config;
  config.vocab_size = 5;
  config.num_layers = 2;
  config.d_model = 16;
  config.num_heads = 2;
  config.seq_len = 8;
  return config;
}

Tensor some_tokens(int64_t rows, int64_t length, int32_t vocab, int32_t shift = 0) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < rows * length; ++i) tokens.push_back(static_cast<int32_t>((i * i + 3 * i + shift) % vocab));
  return from_tokens({rows, length}, tokens);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

std::vector<double> all_gradients(const Gpt& model) {
  std::vector<double> gradients;
  for (const auto& entry : model.parameters().entries()) {
    const std::vector<double> g = entry.tensor.grad().values();
    gradients.insert(gradients.end(), g.begin(), g.end());
  }
  return gradients;
}

TEST(Gpt, CountsItsParameters) {
  GptConfig config = tiny();
  config.d_model = 4;
  config.bias = false;
  config.tie_embeddings = false;
  const int64_t untied = Gpt(config, DType::f32).parameters().parameters();
  config.tie_embeddings = true;
  EXPECT_EQ(untied - Gpt(config, DType::f32).parameters().parameters(), 20);  // V * C
}

TEST(Gpt, KvHeadsShrinkTheirProjectionsOnly) {
  GptConfig config = tiny();
  config.d_model = 24;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  const Gpt model(config, DType::f32);
  const Shape& qkv = model.parameters().entry("blocks.0.attention.qkv.weight").shape;
  EXPECT_EQ(qkv.numel(), 24 * 24 + 2 * 24 * 8);
  EXPECT_EQ(model.logits(some_tokens(2, 8, 5), {}).shape(), (Shape{2, 8, 5}));
}

TEST(Gpt, RefusesSizesThatDoNotFit) {
  GptConfig config = tiny();
  config.d_model = 10;
  config.num_heads = 3;
  EXPECT_THROW(Gpt(config, DType::f32), ConfigError);
  config = tiny();
  config.num_kv_heads = 3;
  EXPECT_THROW(Gpt(config, DType::f32), ConfigError);
  config = tiny();
  config.position = Position::rope;
  config.rope_fraction = 0.4;  // 3.2 of 8 columns
  EXPECT_THROW(Gpt(config, DType::f32), ConfigError);
  EXPECT_THROW(Gpt(tiny(), DType::f32).logits(some_tokens(1, 9, 5), {}), ShapeError);
}

// Sinusoids and the table of RoPE are computed for every length, and a model without positions has no limit.
TEST(Gpt, ReadsMoreThanSeqLenWherePositionsDoNotEnd) {
  for (const Position position : {Position::sinusoidal, Position::rope, Position::alibi, Position::none}) {
    GptConfig config = tiny();
    config.position = position;
    GptConfig longer = config;
    longer.seq_len = 40;
    const Gpt model(config, DType::f64), expected(longer, DType::f64);
    const Tensor tokens = some_tokens(2, 33, 5);
    EXPECT_EQ(model.logits(tokens, {}).values(), expected.logits(tokens, {}).values());
  }
  EXPECT_EQ(tiny().max_positions(), tiny().seq_len) << "learned";
}

TEST(Gpt, StartsNearTheUniformLoss) {
  GptConfig config = tiny();
  config.vocab_size = 65;
  config.d_model = 64;
  const Gpt model(config, DType::f32);
  const double loss = model.loss(some_tokens(4, 8, 65), some_tokens(4, 8, 65, 1), {}).item();
  EXPECT_LT(std::abs(loss - std::log(65.0)), 0.1 * std::log(65.0));
}

// A later token must not change earlier logits, in any form of the model.
TEST(Gpt, SeesNoLaterToken) {
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
    for (const Position position : {Position::learned, Position::sinusoidal, Position::rope, Position::none}) {
      for (const int64_t kv_heads : {1, 2}) {
        GptConfig config = tiny();
        config.norm_position = norm;
        config.position = position;
        config.num_kv_heads = kv_heads;
        const Gpt model(config, DType::f32);
        std::vector<int32_t> tokens{1, 2, 3, 4, 0, 1, 2, 3};
        const std::vector<double> before = model.logits(from_tokens({1, 8}, tokens), {}).values();
        tokens[5] = 4;
        const std::vector<double> after = model.logits(from_tokens({1, 8}, tokens), {}).values();
        EXPECT_TRUE(std::equal(before.begin(), before.begin() + 5 * 5, after.begin()));
        for (size_t t = 5; t < 8; ++t) {
          EXPECT_FALSE(std::equal(before.begin() + t * 5, before.begin() + (t + 1) * 5, after.begin() + t * 5)) << t;
        }
      }
    }
  }
}

TEST(Gpt, PositionsMatterWhereThereAreSome) {
  const std::vector<int32_t> same(8, 2);
  for (const auto& [position, differs] :
       {std::pair{Position::none, false}, {Position::learned, true}, {Position::sinusoidal, true}}) {
    GptConfig config = tiny();
    config.position = position;
    const std::vector<double> logits = Gpt(config, DType::f64).logits(from_tokens({1, 8}, same), {}).values();
    const double difference =
        largest_difference({logits.begin(), logits.begin() + 5}, {logits.end() - 5, logits.end()});
    EXPECT_EQ(difference > test::kSixDigits, differs);
  }
}

// Keeps the queries and keys of the first layer.
struct KeepQkv : ForwardHook {
  void qkv(int64_t layer, const Tensor& qkv, const AttentionOptions& /*options*/) override {
    if (layer == 0) seen = qkv.values();
  }
  std::vector<double> seen;
};

// The same token at all positions: without a rotation all queries and keys are the same, and values always are.
TEST(Gpt, RopeRotatesQueriesAndKeysWhereTheHookSeesThem) {
  GptConfig config = tiny();
  config.num_kv_heads = 1;
  config.position = Position::rope;
  KeepQkv hook;
  const Gpt model(config, DType::f64);
  model.logits(from_tokens({1, 8}, std::vector<int32_t>(8, 2)), {.hook = &hook});
  const auto part = [&](int64_t position, int64_t first, int64_t count) {
    const auto begin = hook.seen.begin() + position * 32 + first;
    return std::vector<double>(begin, begin + count);
  };
  for (int64_t head = 0; head < 3; ++head) {
    const std::vector<double> at_0 = part(0, 8 * head, 8), at_3 = part(3, 8 * head, 8);
    for (size_t i = 0; i < 4; ++i) {
      const double angle = 3 * std::pow(10000.0, -static_cast<double>(i) / 4);
      EXPECT_NEAR(at_3[i], at_0[i] * std::cos(angle) - at_0[i + 4] * std::sin(angle), test::kF64);
      EXPECT_NEAR(at_3[i + 4], at_0[i + 4] * std::cos(angle) + at_0[i] * std::sin(angle), test::kF64);
    }
  }
  EXPECT_EQ(part(0, 24, 8), part(3, 24, 8));
}

TEST(Gpt, SoftcapBoundsTheLogits) {
  GptConfig config = tiny();
  config.init_std = 1;
  const std::vector<double> plain = Gpt(config, DType::f64).logits(some_tokens(2, 8, 5), {}).values();
  config.logit_softcap = 3;
  const std::vector<double> capped = Gpt(config, DType::f64).logits(some_tokens(2, 8, 5), {}).values();
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(capped[i], 3 * std::tanh(plain[i] / 3), test::kF64);
}

TEST(Gpt, ZeroInitMakesEachBlockTheIdentity) {
  GptConfig config = tiny();
  config.zero_init_projections = true;
  const Gpt model(config, DType::f64);
  int zero = 0;
  for (const auto& entry : model.parameters().entries()) {
    const bool is_projection =
        entry.name.ends_with("attention.projection.weight") || entry.name.ends_with("feed_forward.down.weight");
    const std::vector<double> values = entry.values.values();
    const bool all_zero = std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
    EXPECT_TRUE(entry.shape.rank() < 2 || all_zero == is_projection) << entry.name;
    zero += is_projection;
  }
  EXPECT_EQ(zero, 4);
  GptConfig deeper = config;
  deeper.num_layers = 5;
  const Tensor tokens = some_tokens(2, 8, 5);
  EXPECT_EQ(model.logits(tokens, {}).values(), Gpt(deeper, DType::f64).logits(tokens, {}).values());
}

TEST(Gpt, SinusoidsFollowTheFormula) {
  const std::vector<double> s = sinusoidal_positions(3, 4, DType::f64).values();
  const std::vector<double> first{0, 1, 0, 1};
  EXPECT_LT(largest_difference({s.begin(), s.begin() + 4}, first), test::kF64);
  const std::vector<double> third{std::sin(2.0), std::cos(2.0), std::sin(0.02), std::cos(0.02)};
  EXPECT_LT(largest_difference({s.begin() + 8, s.end()}, third), test::kF64);
}

// The tied matrix is read twice: its gradient is the sum of that as an embedding and that as a head.
TEST(Gpt, TiedGradientIsTheSumOfBothUses) {
  GptConfig config = tiny();
  config.d_model = 4;
  config.init_std = 0.3;
  const Gpt tied(config, DType::f64);
  config.tie_embeddings = false;
  const Gpt untied(config, DType::f64);
  const Tensor& embedding = untied.parameters().entry("token_embedding.weight").tensor;
  const Tensor& head = untied.parameters().entry("head.weight").tensor;
  std::copy_n(embedding.data<double>(), embedding.numel(), head.data<double>());

  const Tensor tokens = some_tokens(2, 8, 5), targets = some_tokens(2, 8, 5, 1);
  backward(tied.loss(tokens, targets, {}));
  backward(untied.loss(tokens, targets, {}));
  std::vector<double> sum = embedding.grad().values();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += head.grad().values()[i];
  const Tensor& shared = tied.parameters().entry("token_embedding.weight").tensor;
  EXPECT_LT(largest_difference(shared.grad().values(), sum), test::kF64);

  const GradcheckResult result =
      gradcheck([&] { return tied.loss(tokens, targets, {}); }, {{"shared", shared}}, {.tolerance = test::kGradcheck});
  EXPECT_TRUE(result.passed) << result.text();
}

// Rows of the global batch keep their dropout masks however the batch is cut.
TEST(Gpt, MicroBatchesAddUpToTheBatchWithDropout) {
  GptConfig config = tiny();
  config.dropout = config.attention_dropout = 0.3;
  const Gpt whole(config, DType::f64), parts(config, DType::f64);
  const Tensor tokens = some_tokens(4, 8, 5), targets = some_tokens(4, 8, 5, 2);
  const ForwardContext context{.training = true, .seed = 3, .step = 7};
  const Tensor loss = whole.loss(tokens, targets, context, 32);
  backward(loss);
  double sum = 0;
  for (const int64_t first : {0, 1, 3}) {
    const int64_t rows = first == 1 ? 2 : 1;
    ForwardContext part = context;
    part.first_row = first;
    const Tensor part_loss =
        parts.loss(tokens.slice(first * 8, {rows, 8}), targets.slice(first * 8, {rows, 8}), part, 32);
    backward(part_loss);
    sum += part_loss.item();
  }
  EXPECT_LT(std::abs(sum - loss.item()), test::kF64);
  EXPECT_LT(largest_difference(all_gradients(whole), all_gradients(parts)), test::kF64);
}

TEST(Gpt, DropoutActsInTrainingOnlyAndMovesWithTheStep) {
  GptConfig config = tiny();
  config.dropout = 0.5;
  const Gpt model(config, DType::f32);
  const Tensor tokens = some_tokens(2, 8, 5);
  const auto logits = [&](const ForwardContext& context) { return model.logits(tokens, context).values(); };
  const ForwardContext training{.training = true, .seed = 1, .step = 0};
  ForwardContext next = training;
  next.step = 1;
  EXPECT_EQ(logits({}), logits({}));
  EXPECT_NE(logits({}), logits(training));
  EXPECT_EQ(logits(training), logits(training));
  EXPECT_NE(logits(training), logits(next));
}

TEST(Gpt, RecomputeGivesTheSameBitsWithLessMemory) {
  GptConfig config = tiny();
  config.num_layers = 4;
  config.d_model = 32;
  config.seq_len = 32;
  config.dropout = config.attention_dropout = 0.2;
  const Tensor tokens = some_tokens(4, 32, 5), targets = some_tokens(4, 32, 5, 1);
  const ForwardContext context{.training = true, .seed = 1, .step = 3};
  std::vector<double> gradients[2];
  double losses[2];
  int64_t peaks[2];
  for (const bool recompute : {false, true}) {
    Gpt model(config, DType::f32);
    model.set_recompute(recompute);
    reset_memory_peaks(Device::cpu);
    const Tensor loss = model.loss(tokens, targets, context);
    backward(loss);
    losses[recompute] = loss.item();
    gradients[recompute] = all_gradients(model);
    peaks[recompute] = memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::activations)].peak_bytes;
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_LT(peaks[1], peaks[0] * 6 / 10);
  EXPECT_EQ(live_nodes(), 0);
}

TEST(ParameterCount, GivesTheFlopsOfATrainingStep) {
  GptConfig config = tiny();  // 2 layers of 12 C^2, and the head
  EXPECT_EQ(flops_per_token(config).weights / 6, 2 * 12 * 16 * 16 + 5 * 16);
  config.tie_embeddings = false;
  EXPECT_EQ(flops_per_token(config).weights / 6, 2 * 12 * 16 * 16 + 5 * 16);
  config.activation = Activation::swiglu;  // 4 C^2 of attention, and 3 C d_ff
  EXPECT_EQ(flops_per_token(config).weights / 6, 2 * (4 * 16 + 3 * 43) * 16 + 5 * 16);
  EXPECT_EQ(flops_per_token(config).attention, 6 * 2 * 8 * 16);
  config.sliding_window = 2;  // 2 keys, less for the first query
  EXPECT_EQ(flops_per_token(config).attention, 12 * 2 * 16 * (2 - 0.25));
}

// In bf16 a gradient that is added to twice is rounded twice, so this is where a difference in the order would show.
TEST(Gpt, RecomputeChangesNoBitOfAnyPrecision) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto gradients = [&](bool recomputed) {
      GptConfig config{.vocab_size = 11, .num_layers = 2, .d_model = 32, .num_heads = 2};
      config.seq_len = 9;
      config.dropout = 0.2;
      Gpt model(config, dtype);
      model.set_recompute(recomputed);
      std::vector<int32_t> ids;
      for (int i = 0; i < 18; ++i) ids.push_back(i * 7 % 11);
      const Tensor batch = from_tokens({2, 9}, ids);
      backward(model.loss(batch, batch, {.training = true, .seed = 1}));
      std::vector<std::vector<double>> all;
      for (const auto& group : model.parameters().groups()) all.push_back(group.gradients.values());
      return all;
    };
    EXPECT_EQ(gradients(false), gradients(true)) << name(dtype);
  }
}

}  // namespace
}  // namespace heed::nn
