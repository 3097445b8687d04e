// What every variant of the model must hold. The variants come from the keys of the config, so a new one is here, too.
#include "train/config/model_variants.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/tape.hpp"
#include "nn/gpt.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::train {
namespace {

constexpr int32_t kVocab = 7;

nn::GptConfig base() {
  nn::GptConfig config{.vocab_size = kVocab, .num_layers = 2, .d_model = 24, .num_heads = 4};
  config.num_kv_heads = 2;
  config.d_ff = 20;
  config.seq_len = 9;
  config.init_std = 0.3;
  return config;
}

// Gains begin at 1 and biases at 0, where nothing would show that one is missing or another's. No two are alike here.
void shake_vectors(const nn::Gpt& model) {
  int64_t drawn = 0;
  for (const auto& entry : model.parameters().entries()) {
    for (int64_t i = 0; entry.shape.rank() == 1 && i < entry.shape.numel(); ++i) {
      entry.tensor.data<double>()[i] = 0.5 + 0.125 * static_cast<double>(drawn++ * 5 % 11);
    }
  }
}

TEST(ModelVariants, AreTheOtherValuesOfTheKeys) {
  std::vector<std::string> names;
  for (const auto& [name, config] : model_variants(base())) names.push_back(name);
  for (const char* name : {"norm = \"rms\"", "norm_position = \"post\"", "bias = false", "position = \"none\""}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  for (const char* name : {"norm = \"layer\"", "bias = true"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 0) << name;
  }
}

TEST(ModelVariants, GiveTheLogitsOfTheWholeSequenceWithACache) {
  const NoGradGuard no_grad;
  for (const auto& [name, config] : model_variants(base())) {
    const nn::Gpt model(config, DType::f64);
    shake_vectors(model);
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < config.seq_len; ++i) tokens.push_back((i * i + 3 * i + 1) % kVocab);
    const std::vector<double> all = model.logits(from_tokens({1, config.seq_len}, tokens), {}).values();
    nn::KvCache cache(config);
    int64_t done = 0;
    for (const int64_t part : {3, 1, 1, 4}) {
      const std::vector<int32_t> fresh(tokens.begin() + done, tokens.begin() + done + part);
      const std::vector<double> next = model.next_logits(from_tokens({1, part}, fresh), cache).values();
      done += part;
      for (int64_t v = 0; v < kVocab; ++v) {
        const double expected = all[static_cast<size_t>((done - 1) * kVocab + v)];
        EXPECT_LE(std::abs(next[static_cast<size_t>(v)] - expected), test::kF64 * std::max(1.0, std::abs(expected)))
            << name << ", token " << v << " after " << done;
      }
    }
  }
}

TEST(ModelVariants, HaveTheParametersThatAreCounted) {
  for (const auto& [name, config] : model_variants(base())) {
    const nn::Gpt model(config, DType::f32);
    EXPECT_EQ(nn::count_parameters(config).all(), static_cast<double>(model.parameters().parameters())) << name;
  }
}

}  // namespace
}  // namespace heed::train
