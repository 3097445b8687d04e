// Which random numbers a model uses: no two parameters and no two dropouts of a forward pass may share them.
#include <gtest/gtest.h>

#include <set>

#include "autograd/ops/attention/attention.hpp"
#include "nn/block.hpp"
#include "nn/gpt.hpp"

namespace heed::nn {
namespace {

void set_all(const Tensor& tensor, double value) {
  copy_elements_to(tensor.ref(), full(tensor.shape(), tensor.dtype(), value));
}

TEST(RandomSites, ParametersOfOneShapeStartWithDifferentValues) {
  const Gpt model({.vocab_size = 8, .num_layers = 3, .d_model = 8, .num_heads = 2, .d_ff = 8, .seq_len = 8},
                  DType::f32);
  std::set<std::vector<double>> drawn;
  size_t matrices = 0;
  for (const ParameterStore::Entry& entry : model.parameters().entries()) {
    if (entry.shape != Shape{8, 8}) continue;
    ++matrices;
    drawn.insert(entry.values.values());
  }
  EXPECT_EQ(matrices, 2u + 3 * 3);  // embeddings; projection, up and down of each layer
  EXPECT_EQ(drawn.size(), matrices);
}

// GPT-2: 0.02 / sqrt(2 L) for the two projections of each layer that end in the residual stream.
TEST(RandomSites, ResidualProjectionsStartSmaller) {
  const Gpt model({.vocab_size = 11, .num_layers = 8, .d_model = 16, .num_heads = 2, .seq_len = 8}, DType::f32);
  int residual = 0;
  for (const ParameterStore::Entry& entry : model.parameters().entries()) {
    if (entry.shape.rank() != 2) continue;
    const bool ends_in_residual =
        entry.name.ends_with("attention.projection.weight") || entry.name.ends_with("feed_forward.down.weight");
    residual += ends_in_residual ? 1 : 0;
    EXPECT_DOUBLE_EQ(entry.init.std, ends_in_residual ? 0.02 / 4 : 0.02) << entry.name;
  }
  EXPECT_EQ(residual, 16);
}

TEST(RandomSites, EveryLayerAndPlaceHasItsOwn) {
  const ForwardContext context;
  std::set<uint32_t> sites;
  for (int64_t layer = 0; layer < 100; ++layer) {
    for (const auto place : {DropoutPlace::embedding, DropoutPlace::attention, DropoutPlace::attention_residual,
                             DropoutPlace::feed_forward_residual}) {
      sites.insert(context.random(layer, place).site);
    }
  }
  EXPECT_EQ(sites.size(), 400u);
}

using Mask = std::vector<bool>;
constexpr int64_t kBatch = 2, kTime = 5, kWidth = 8;

// Both branches give a constant, 1 and 1000, which dropout doubles or drops: the sum tells which.
std::pair<Mask, Mask> residual_masks(NormPosition position, int64_t layer) {
  ParameterStore store(DType::f64);
  const Block block(store, "block", {.d_model = kWidth, .num_heads = 2, .norm_position = position, .dropout = 0.5},
                    layer);
  store.build(1);
  for (const char* name : {"attention.projection", "feed_forward.down"}) {
    set_all(store.entry(std::string("block.") + name + ".weight").values, 0);
    set_all(store.entry(std::string("block.") + name + ".bias").values, name[0] == 'a' ? 1 : 1000);
  }
  const Tensor y = block(full({kBatch, kTime, kWidth}, DType::f64, 0), {.training = true, .seed = 3, .step = 5});
  Mask attention, feed_forward;
  for (const double value : y.values()) {
    EXPECT_TRUE(value == 0 || value == 2 || value == 2000 || value == 2002) << value;
    attention.push_back(value == 2 || value == 2002);
    feed_forward.push_back(value >= 2000);
  }
  return {attention, feed_forward};
}

Mask embedding_mask() {
  const Gpt model({.vocab_size = kWidth,
                   .num_layers = 1,
                   .d_model = kWidth,
                   .num_heads = 2,
                   .seq_len = kTime,
                   .position = Position::none,
                   .dropout = 0.5,
                   .bias = false,
                   .tie_embeddings = false},
                  DType::f64);
  for (const ParameterStore::Entry& entry : model.parameters().entries()) {
    if (entry.name == "token_embedding.weight") set_all(entry.values, 1);
    if (entry.name.starts_with("blocks.") && entry.shape.rank() == 2) set_all(entry.values, 0);
    if (entry.name == "head.weight") {
      set_all(entry.values, 0);
      for (int64_t i = 0; i < kWidth; ++i) entry.values.data<double>()[i * (kWidth + 1)] = 1;
    }
  }
  const Tensor tokens = from_tokens({kBatch, kTime}, std::vector<int32_t>(kBatch * kTime));
  Mask mask;  // of 0 and 2, the normed ones above the mean are kept
  for (const double logit : model.logits(tokens, {.training = true, .seed = 3, .step = 5}).values()) {
    mask.push_back(logit > 0);
  }
  return mask;
}

TEST(RandomSites, DropoutsOfOneForwardPassDiffer) {
  std::set<Mask> masks = {embedding_mask()};
  for (int64_t layer = 0; layer < 3; ++layer) {
    const auto [attention, feed_forward] = residual_masks(NormPosition::pre, layer);
    masks.insert(attention);
    masks.insert(feed_forward);
  }
  EXPECT_EQ(masks.size(), 7u);
}

// The probabilities have another shape than the residual stream, so their dropout is compared with the operation's.
TEST(RandomSites, AttentionProbabilitiesHaveTheirOwn) {
  ParameterStore store(DType::f64);
  const Attention attention(store, "a", {.d_model = kWidth, .num_heads = 2, .attention_dropout = 0.5}, 2);
  store.build(1);
  const Tensor x = from_values({1, 3, kWidth}, DType::f64, [] {
    std::vector<double> values;
    for (int i = 0; i < 3 * kWidth; ++i) values.push_back(0.1 * (i % 7));
    return values;
  }());
  const ForwardContext context{.training = true, .seed = 3, .step = 5};
  const auto parameter = [&](const char* name) { return store.entry(std::string("a.") + name).tensor; };
  const auto expected = [&](DropoutPlace place) {
    const Tensor mixed =
        attention_packed(linear(x, parameter("qkv.weight"), parameter("qkv.bias")),
                         {.num_heads = 2, .num_kv_heads = 2, .dropout = 0.5, .random = context.random(2, place)});
    return linear(mixed, parameter("projection.weight"), parameter("projection.bias")).values();
  };
  EXPECT_EQ(attention(x, context).values(), expected(DropoutPlace::attention));
  EXPECT_NE(attention(x, context).values(), expected(DropoutPlace::attention_residual));
}

}  // namespace
}  // namespace heed::nn
