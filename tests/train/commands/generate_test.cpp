// Generation with its cache against the plain definition: at each token the whole sequence through the model.
#include "train/commands/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/tape.hpp"
#include "data/text/char_tokenizer.hpp"
#include "tests/train/tiny.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

// A tiny model with weights so large that its choices depend on what it sees; with a tied head it would repeat a token.
LoadedModel tiny_model(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"init_std=0.5", "tie_embeddings=false"});
  LoadedModel loaded;
  loaded.config = test::tiny_config(overrides);
  loaded.model = std::make_unique<nn::Gpt>(loaded.config.model, loaded.config.train.precision);
  return loaded;
}

std::vector<int32_t> plainly(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateOptions& options,
                             uint64_t sample_number) {
  const NoGradGuard no_grad;
  const nn::GptConfig& model = loaded.model->config();
  const RandomStream random{.seed = options.seed, .site = random_site(RandomDomain::sampling), .step = sample_number};
  const size_t prompt = tokens.size();
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    const auto length = std::min<int64_t>(static_cast<int64_t>(tokens.size()), model.seq_len);
    const Tensor sequence = from_tokens({1, length}, {tokens.end() - length, tokens.end()});
    const std::vector<double> logits = loaded.model->logits(sequence, {}).values();
    tokens.push_back(
        sample({logits.end() - model.vocab_size, logits.end()}, options.sampler, random, static_cast<uint64_t>(i)));
  }
  return {tokens.begin() + static_cast<int64_t>(prompt), tokens.end()};
}

std::vector<int32_t> with_cache(const LoadedModel& loaded, const std::vector<int32_t>& prompt,
                                const GenerateOptions& options, int64_t sample_number) {
  std::vector<int32_t> tokens;
  generate(loaded, prompt, options, sample_number, [&](int32_t id) { tokens.push_back(id); });
  return tokens;
}

// Prompts of one token, up to the sequence of 8, of the sequence, and longer.
TEST(Generate, GivesTheTokensOfThePlainDefinition) {
  for (const char* position : {"learned", "sinusoidal", "none"}) {
    for (const char* norm : {"pre", "post"}) {
      const LoadedModel loaded =
          tiny_model({"num_kv_heads=1", std::string("position=") + position, std::string("norm_position=") + norm});
      for (const int64_t length : {1, 5, 7, 8, 9, 20}) {
        std::vector<int32_t> prompt;
        for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>((5 * i * i + i + 2) % 6));
        for (const uint32_t seed : {1u, 2u}) {
          const GenerateOptions options{.num_tokens = 20, .seed = seed};
          EXPECT_EQ(with_cache(loaded, prompt, options, seed), plainly(loaded, prompt, options, seed))
              << position << ' ' << norm << ", a prompt of " << length;
        }
      }
    }
  }
}

// Else the test above would compare nothing.
TEST(Generate, DependsOnWhatIsInTheSequenceOnly) {
  const LoadedModel loaded = tiny_model({});
  const GenerateOptions options{.num_tokens = 12, .sampler = {.temperature = 0}};
  const std::vector<int32_t> sequence{1, 2, 3, 4, 5, 0, 1, 3};
  std::vector<int32_t> longer{4, 4};
  longer.insert(longer.end(), sequence.begin(), sequence.end());
  const std::vector<int32_t> expected = with_cache(loaded, sequence, options, 0);
  EXPECT_EQ(with_cache(loaded, longer, options, 0), expected);
  std::vector<std::vector<int32_t>> others;
  for (size_t i = 0; i < sequence.size(); ++i) {
    std::vector<int32_t> other = sequence;
    other[i] = (other[i] + 1) % 6;
    others.push_back(with_cache(loaded, other, options, 0));
  }
  EXPECT_TRUE(std::any_of(others.begin(), others.end(), [&](const auto& one) { return one != expected; }));
}

// What stands before the prompt is seen and not printed; what is left out is neither.
TEST(Prompt, CountsTheTokensThatStandForTheText) {
  LoadedModel loaded = tiny_model({});
  const auto expect = [&](const std::string& text, const std::vector<int32_t>& tokens, int64_t num_given) {
    const Prompt prompt = make_prompt(loaded, text, true);
    EXPECT_EQ(prompt.tokens, tokens) << text;
    EXPECT_EQ(prompt.num_given, num_given) << text;
  };
  expect("", {0}, 0);
  expect("3 \n\t02 5", {3, 2, 5}, 3);
  for (const char* text : {"6", "-1", "1,2", "0x1", "99999999999"}) {
    EXPECT_THROW(make_prompt(loaded, text, true), DataError) << text;
  }
  loaded.tokenizer = std::make_unique<data::CharTokenizer>(std::vector<char32_t>{U'\n', U'a', U'b'}, false);
  expect("", {0}, 0);
  expect("a?b", {1, 2}, 2);
  expect("??", {0}, 0);
  EXPECT_THROW(make_prompt(loaded, "a?b", false), DataError);
  loaded.tokenizer = std::make_unique<data::CharTokenizer>(std::vector<char32_t>{U'a', U'b'}, true);
  expect("", {2}, 0);
  expect("ab", {2, 0, 1}, 2);
}

// Which tokens sample() can give, and how often, for probabilities that are powers of two: every sum is exact.

// By id 1/8, 1/2, 1/8, 1/4: not in falling order.
const std::vector<double> kLogits{std::log(0.125), std::log(0.5), std::log(0.125), std::log(0.25)};
constexpr int kDraws = 4000;

// How often each id is drawn.
std::array<int, 4> draw(const SamplerOptions& options) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  std::array<int, 4> counts{};
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(static_cast<size_t>(sample(kLogits, options, random, i)));
  return counts;
}

// Five standard deviations of a binomial count.
void expect_shares(const std::array<int, 4>& counts, const std::array<double, 4>& shares) {
  for (size_t id = 0; id < shares.size(); ++id) {
    const double mean = kDraws * shares.at(id), deviation = std::sqrt(mean * (1 - shares.at(id)));
    EXPECT_NEAR(counts.at(id), mean, 5 * deviation) << "token " << id;
  }
}

TEST(Sampler, DrawsByTheProbabilities) {
  expect_shares(draw({}), {0.125, 0.5, 0.125, 0.25});
  expect_shares(draw({.top_k = 4}), {0.125, 0.5, 0.125, 0.25});
  expect_shares(draw({.top_k = 100}), {0.125, 0.5, 0.125, 0.25});
}

TEST(Sampler, TemperatureIsAPowerOfTheProbabilities) {
  expect_shares(draw({.temperature = 0.5}), {1.0 / 22, 16.0 / 22, 1.0 / 22, 4.0 / 22});
}

TEST(Sampler, TopKKeepsThatMany) {
  expect_shares(draw({.top_k = 2}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.top_k = 1}), {0, 1, 0, 0});
  // Of the two that are equal the lower id.
  expect_shares(draw({.top_k = 3}), {1.0 / 7, 4.0 / 7, 0, 2.0 / 7});
}

// The token whose probability crosses the sum is kept; where the sum reaches p exactly, the next one is not.
TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  expect_shares(draw({.top_p = 0.6}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.top_p = 0.75}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.top_p = 0.5}), {0, 1, 0, 0});
  expect_shares(draw({.top_p = 0.01}), {0, 1, 0, 0});
  expect_shares(draw({.top_p = 0.8}), {1.0 / 7, 4.0 / 7, 0, 2.0 / 7});
  expect_shares(draw({.top_p = 1}), {0.125, 0.5, 0.125, 0.25});
}

TEST(Sampler, TopPIsOfWhatTopKLeaves) { expect_shares(draw({.top_k = 2, .top_p = 2.0 / 3 - 1e-9}), {0, 1, 0, 0}); }

TEST(Sampler, TemperatureZeroIsTheLargestLogitWithTheLowestId) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  EXPECT_EQ(sample(kLogits, {.temperature = 0}, random, 0), 1);
  EXPECT_EQ(sample(std::vector<double>{-1, 2, 2}, {.temperature = 0}, random, 0), 1);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  for (const double bad : {double{NAN}, double{INFINITY}}) {
    EXPECT_THROW(sample(std::vector<double>{0, bad, 1}, {}, random, 0), DivergedError);
  }
  EXPECT_THROW(sample(std::vector<double>{-INFINITY, -INFINITY}, {}, random, 0), DivergedError);
  EXPECT_EQ(sample(std::vector<double>{-INFINITY, 0}, {}, random, 0), 1);
}

}  // namespace
}  // namespace heed::train
