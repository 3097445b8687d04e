// What every variant of the model must hold. The variants come from the keys of the config, so a new one is here, too.
#include "train/config/model_variants.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/tape.hpp"
#include "nn/gpt.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/model_combinations.hpp"
#include "train/config/config_schema.hpp"

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

// What is compared between devices and ranks has the value of a new variant, too.
TEST(ModelCombinations, HaveEveryValueOfEveryKeyOfTheSchema) {
  test::Overrides all;
  for (const test::Factor& factor : test::model_factors()) {
    for (const test::Overrides& value : factor) all.insert(all.end(), value.begin(), value.end());
  }
  for (const KeySpec& key : schema()) {
    for (std::string value : key.table == "model" ? key.choices : std::vector<std::string>()) {
      std::erase(value, '"');
      EXPECT_NE(std::count(all.begin(), all.end(), key.name + "=" + value), 0)
          << key.name << " = " << value << " is missing in model_factors()";
    }
  }
}

TEST(CoveringArray, HasEveryPairInFewRows) {
  const std::vector<size_t> counts{3, 5, 2, 1, 4, 2};
  const test::CoveringArray array(counts);
  for (size_t a = 0; a < counts.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      std::set<std::pair<size_t, size_t>> pairs;
      for (const auto& row : array.rows()) pairs.emplace(row[a], row[b]);
      EXPECT_EQ(pairs.size(), counts[a] * counts[b]) << a << ", " << b;
    }
  }
  for (const auto& row : array.rows()) {
    for (size_t factor = 0; factor < counts.size(); ++factor) EXPECT_LT(row[factor], counts[factor]);
  }
  EXPECT_LE(array.rows().size(), 24u) << "at least 5 * 4 are needed";
}

}  // namespace
}  // namespace heed::train
