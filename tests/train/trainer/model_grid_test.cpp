// Many combinations of the model's keys, each a tiny model in f64: its gradients against differences, its logits with a
// KV cache against those without, and recomputation against saved activations. The combinations are drawn with a fixed
// seed, so that every pair of values of two keys occurs in several of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/check/gradcheck.hpp"
#include "autograd/tape.hpp"
#include "nn/gpt.hpp"
#include "tests/support/tolerance.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"

namespace heed::train {
namespace {

constexpr int kShards = 4, kConfigsPerShard = 150;
constexpr int32_t kVocab = 7;
constexpr int64_t kLength = 6;

class Draw {
 public:
  explicit Draw(uint64_t index) : stream_{.seed = 5, .site = random_site(RandomDomain::init), .step = index} {}
  // A number from 0 to n - 1.
  size_t below(size_t n) { return stream_.word(next_++) % n; }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

// The values of each model key that the grid combines.
std::map<std::string, std::vector<std::string>> values_of_keys() {
  std::map<std::string, std::vector<std::string>> values{
      {"num_kv_heads", {"4", "2", "1"}}, {"sliding_window", {"0", "1", "3"}},   {"window_pattern", {"\"S\"", "\"LS\""}},
      {"dropout", {"0.0", "0.2"}},       {"attention_dropout", {"0.0", "0.2"}}, {"mup_base_width", {"0", "5"}}};
  for (const KeySpec& key : schema()) {
    if (key.table == "model" && !key.choices.empty()) values[key.name] = key.choices;
  }
  return values;
}

struct GridModel {
  std::string name;
  nn::GptConfig config;
};

GridModel draw_model(uint64_t index) {
  Draw draw(index);
  Config config;
  config.model = {.vocab_size = kVocab, .num_layers = 2, .d_model = 16, .num_heads = 4};
  config.model.d_ff = 10;
  config.model.seq_len = kLength;
  config.model.init_std = 0.3;
  std::string name;
  for (const auto& [key, values] : values_of_keys()) {
    const std::string& value = values[draw.below(values.size())];
    const KeySpec* spec = find_key("model", key);
    EXPECT_TRUE(spec->set(config, *read_toml_value(value))) << key << " = " << value;
    name += fmt::format("{}{} = {}", name.empty() ? "" : ", ", key, value);
  }
  if (draw.below(3) == 0) {
    config.model.document_separator = 2;
    name += ", documents";
  }
  return {name, config.model};
}

std::vector<int32_t> tokens_of(uint64_t index, int64_t count) {
  Draw draw(index);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(draw.below(kVocab)));
  return tokens;
}

// Gains begin at 1, biases and some projections at 0, where nothing would show that they are missing.
void shake(const nn::Gpt& model) {
  uint64_t number = 0;
  for (const auto& entry : model.parameters().entries()) {
    const RandomStream stream{.seed = 6, .site = random_site(RandomDomain::init), .step = number++};
    double* const values = entry.tensor.data<double>();
    for (int64_t i = 0; i < entry.shape.numel(); ++i) {
      values[i] += 0.3 * stream.normal_pair(static_cast<uint64_t>(i))[0];
    }
  }
}

// A difference over the kink of ReLU, or of the derivative of ReLU^2, is no derivative.
bool is_smooth(const nn::GptConfig& config) {
  return config.attention_only ||
         (config.activation != nn::Activation::relu && config.activation != nn::Activation::relu2);
}

class ModelGrid : public testing::TestWithParam<int> {};

TEST_P(ModelGrid, GradientsCacheAndRecomputation) {
  for (int i = 0; i < kConfigsPerShard; ++i) {
    const auto index = static_cast<uint64_t>(GetParam() * kConfigsPerShard + i);
    const auto [name, config] = draw_model(index);
    SCOPED_TRACE(name);
    const Tensor inputs = from_tokens({2, kLength}, tokens_of(index, 2 * kLength));
    const Tensor targets = from_tokens({2, kLength}, tokens_of(index + 1'000'000, 2 * kLength));
    const nn::ForwardContext context{.training = true, .seed = 3};

    if (is_smooth(config)) {
      const nn::Gpt model(config, DType::f64);
      shake(model);
      std::vector<GradcheckTensor> tensors;
      for (const auto& entry : model.parameters().entries()) tensors.push_back({entry.name, entry.tensor});
      // Scores of heads of size 4 are 4 times larger with muP, and the difference over a step then off by up to 4^5
      // times more.
      const double step = config.mup_base_width == 0 ? 1e-3 : 2e-4;
      const GradcheckResult result =
          gradcheck([&] { return model.loss(inputs, targets, context); }, tensors, {.step = step, .max_elements = 2});
      EXPECT_TRUE(result.passed) << result.text();
    }

    nn::Gpt model(config, DType::f64);
    shake(model);
    const auto gradients = [&] {
      model.parameters().zero_gradients();
      backward(model.loss(inputs, targets, context));
      std::vector<std::vector<double>> all;
      for (const auto& entry : model.parameters().entries()) all.push_back(entry.tensor.grad().values());
      return all;
    };
    const auto saved = gradients();
    model.set_recompute(true);
    EXPECT_EQ(gradients(), saved);

    if (config.document_separator >= 0) continue;  // a cache holds one document
    const NoGradGuard no_grad;
    const std::vector<double> whole = model.logits(inputs, {}).values();
    nn::KvCache cache(config, 2);
    const std::vector<int32_t> tokens = tokens_of(index, 2 * kLength);
    const auto columns = [&](int64_t first, int64_t count) {
      std::vector<int32_t> part;
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t t = first; t < first + count; ++t) part.push_back(tokens[static_cast<size_t>(b * kLength + t)]);
      }
      return from_tokens({2, count}, part);
    };
    model.next_logits(columns(0, 4), cache, 3);
    model.next_logits(columns(4, 1), cache);
    const std::vector<double> next = model.next_logits(columns(5, 1), cache).values();
    for (int64_t n = 0; n < 2 * kVocab; ++n) {
      const double expected = whole[static_cast<size_t>((n / kVocab * kLength + kLength - 1) * kVocab + n % kVocab)];
      ASSERT_NEAR(next[static_cast<size_t>(n)], expected, test::kF64 * std::max(1.0, std::abs(expected)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ModelGrid, testing::Range(0, kShards));

TEST(ModelGrid, HasEveryPairOfValues) {
  std::map<std::string, std::set<std::string>> seen;
  for (int i = 0; i < kShards * kConfigsPerShard; ++i) {
    const std::string name = draw_model(static_cast<uint64_t>(i)).name;
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < name.size();) {
      const size_t end = std::min(name.find(", ", begin), name.size());
      parts.push_back(name.substr(begin, end - begin));
      begin = end + 2;
    }
    for (const std::string& a : parts) {
      for (const std::string& b : parts) seen[a].insert(b);
    }
  }
  for (const auto& [key, values] : values_of_keys()) {
    for (const auto& [other, others] : values_of_keys()) {
      for (size_t n = 0; key != other && n < values.size() * others.size(); ++n) {
        const std::string a = fmt::format("{} = {}", key, values[n % values.size()]);
        const std::string b = fmt::format("{} = {}", other, others[n / values.size()]);
        EXPECT_TRUE(seen[a].contains(b)) << a << ", " << b;
      }
    }
  }
}

}  // namespace
}  // namespace heed::train
