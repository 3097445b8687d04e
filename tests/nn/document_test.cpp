// Packed documents: a row of several documents is to the model what the documents alone are.
#include <gtest/gtest.h>

#include "autograd/tape.hpp"
#include "nn/gpt.hpp"
#include "tests/support/tolerance.hpp"

namespace heed {
namespace {

constexpr int32_t kSeparator = 3;
constexpr int kTargets = 9;

nn::GptConfig config_of(nn::Position position, int64_t kv_heads, int64_t window) {
  nn::GptConfig config{.vocab_size = 7, .num_layers = 2, .d_model = 16, .num_heads = 4, .num_kv_heads = kv_heads};
  config.seq_len = 12;
  config.position = position;
  config.sliding_window = window;
  config.window_pattern = "SL";
  config.document_separator = kSeparator;
  config.init_std = 0.3;
  return config;
}

struct Pass {
  std::vector<double> logits;
  double loss = 0;
};

// Adds to the gradients. The loss is the sum over the targets, divided by those of all documents.
Pass forward_and_backward(const nn::Gpt& model, const std::vector<int32_t>& inputs,
                          const std::vector<int32_t>& targets) {
  const Shape shape{1, static_cast<int64_t>(inputs.size())};
  const Tensor loss = model.loss(from_tokens(shape, inputs), from_tokens(shape, targets), {}, double(kTargets));
  backward(loss);
  const NoGradGuard no_grad;
  return {model.logits(from_tokens(shape, inputs), {}).values(), loss.item()};
}

std::vector<double> gradients(const nn::Gpt& model) {
  std::vector<double> all;
  for (const auto& entry : model.parameters().entries()) {
    for (const double g : entry.tensor.grad().values()) all.push_back(g);
  }
  return all;
}

TEST(Documents, InOneRowGiveTheGradientsOfTheDocumentsAlone) {
  const std::vector<std::vector<int32_t>> documents{{5, 1, 2, kSeparator}, {kSeparator}, {6, 4, 0, 1}};
  for (const nn::Position position :
       {nn::Position::learned, nn::Position::sinusoidal, nn::Position::rope, nn::Position::alibi, nn::Position::none}) {
    for (const bool recompute : {false, true}) {
      nn::Gpt model(config_of(position, recompute ? 2 : 4, recompute ? 2 : 0), DType::f64);
      model.set_recompute(recompute);
      std::vector<int32_t> row, row_targets;
      Pass alone;
      for (const std::vector<int32_t>& document : documents) {
        std::vector<int32_t> targets;
        for (size_t t = 0; t < document.size(); ++t) targets.push_back(static_cast<int32_t>((3 * t + row.size()) % 7));
        const Pass pass = forward_and_backward(model, document, targets);
        alone.loss += pass.loss;
        alone.logits.insert(alone.logits.end(), pass.logits.begin(), pass.logits.end());
        row.insert(row.end(), document.begin(), document.end());
        row_targets.insert(row_targets.end(), targets.begin(), targets.end());
      }
      ASSERT_EQ(row.size(), size_t{kTargets});
      const std::vector<double> expected = gradients(model);
      model.parameters().zero_gradients();
      const Pass packed = forward_and_backward(model, row, row_targets);
      const std::vector<double> actual = gradients(model);
      EXPECT_NEAR(packed.loss, alone.loss, test::kF64);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], test::kF64) << i;
      for (size_t i = 0; i < packed.logits.size(); ++i) ASSERT_NEAR(packed.logits[i], alone.logits[i], test::kF64) << i;
    }
  }
}

}  // namespace
}  // namespace heed
