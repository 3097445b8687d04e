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
#include "train/commands/stop_text.hpp"
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
    const auto all = static_cast<int64_t>(tokens.size());
    const int64_t length = model.is_unbounded() ? all : std::min(all, model.seq_len);
    const Tensor sequence = from_tokens({1, length}, {tokens.end() - length, tokens.end()});
    const std::vector<double> logits = loaded.model->logits(sequence, {}).values();
    tokens.push_back(
        sample({logits.end() - model.vocab_size, logits.end()}, options.sampler, random, static_cast<uint64_t>(i)));
  }
  return {tokens.begin() + static_cast<int64_t>(prompt), tokens.end()};
}

// What each prompt of a batch is continued with.
std::vector<std::vector<int32_t>> of_batch(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerateOptions& options, int64_t sample_number) {
  std::vector<std::vector<int32_t>> tokens(prompts.size());
  std::vector<int> ends(prompts.size());
  generate(loaded, prompts, options, sample_number,
           {.token =
                [&](size_t prompt, int32_t id) {
                  EXPECT_EQ(ends[prompt], 0);
                  tokens[prompt].push_back(id);
                  return true;
                },
            .end = [&](size_t prompt) { ++ends[prompt]; }});
  EXPECT_EQ(ends, std::vector<int>(prompts.size(), 1));
  return tokens;
}

std::vector<int32_t> with_cache(const LoadedModel& loaded, const std::vector<int32_t>& prompt,
                                const GenerateOptions& options, int64_t sample_number) {
  return of_batch(loaded, {prompt}, options, sample_number).front();
}

// Prompts of one token, up to the sequence of 8, of the sequence, and longer.
TEST(Generate, GivesTheTokensOfThePlainDefinition) {
  for (const char* position : {"learned", "sinusoidal", "rope", "alibi", "none"}) {
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

// With a sliding window in each layer, all tokens are the context.
TEST(Generate, GoesOnBeyondSeqLenWithSlidingWindows) {
  for (const char* position : {"learned", "rope", "alibi", "none"}) {
    const LoadedModel loaded =
        tiny_model({"precision=f64", "sliding_window=3", std::string("position=") + position, "qk_norm=true"});
    const GenerateOptions options{.num_tokens = 100, .seed = 5};
    for (const int64_t length : {1, 30}) {
      std::vector<int32_t> prompt(static_cast<size_t>(length), 2);
      EXPECT_EQ(with_cache(loaded, prompt, options, 1), plainly(loaded, prompt, options, 1)) << position;
    }
  }
}

// Else the tests above would compare nothing.
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

std::vector<int32_t> some_prompt(int64_t length) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>((5 * i * i + (length + 1) * i + 2) % 6));
  return prompt;
}

// Prompts shorter and longer than the sequence of 8: in a batch each gets what it gets alone, also when one sequence is
// full before the others and its context moves.
TEST(Generate, GivesEachPromptOfABatchWhatItGetsAlone) {
  for (const char* position : {"learned", "sinusoidal", "none"}) {
    const LoadedModel loaded = tiny_model({std::string("position=") + position, "precision=f64"});
    const std::vector<std::vector<int32_t>> prompts{some_prompt(3), some_prompt(7), some_prompt(1), some_prompt(12)};
    for (const int64_t num_tokens : {0, 1, 4, 20}) {
      const GenerateOptions options{.num_tokens = num_tokens, .seed = 3};
      const auto together = of_batch(loaded, prompts, options, 1);
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(together[i], with_cache(loaded, prompts[i], options, 1)) << position << ", prompt " << i;
        EXPECT_EQ(std::ssize(together[i]), num_tokens);
      }
    }
  }
}

// Sequences that end leave the batch; those that stay get the same as before.
TEST(Generate, EndsASequenceAtAStopToken) {
  const LoadedModel loaded = tiny_model({"precision=f64"});
  const std::vector<std::vector<int32_t>> prompts{some_prompt(3), some_prompt(5), some_prompt(2), some_prompt(4)};
  const auto all = of_batch(loaded, prompts, {.num_tokens = 15}, 0);
  for (int32_t stop = 0; stop < 6; ++stop) {
    const auto stopped = of_batch(loaded, prompts, {.num_tokens = 15, .stop_tokens = {stop}}, 0);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const std::vector<int32_t> expected(all[i].begin(), std::find(all[i].begin(), all[i].end(), stop));
      EXPECT_EQ(stopped[i], expected) << stop;
    }
  }
}

TEST(StopText, EndsBeforeTheFirstStopText) {
  const auto run = [](const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
    StopText stop(stops);
    std::string shown;
    for (const std::string& part : parts) {
      shown += stop.push(part) + "|";
      if (stop.stopped()) return shown + "!";
    }
    return shown + stop.finish();
  };
  EXPECT_EQ(run({"end"}, {"the ", "end."}), "the ||!");
  EXPECT_EQ(run({"end"}, {"a", "e", "n", "d"}), "a||||!");
  EXPECT_EQ(run({"end"}, {"e", "n", "ee", "nd"}), "||ene||!");
  EXPECT_EQ(run({"end"}, {"e", "n"}), "||en");
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b"}), "||a||!");
  EXPECT_EQ(run({"bc", "b"}, {"abc"}), "a|!");
  EXPECT_EQ(run({"zz", "cd"}, {"abcdzz"}), "ab|!");
  EXPECT_EQ(run({}, {"ab", "c"}), "ab|c|");
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

// Relative to the largest probability, of 1/2.
TEST(Sampler, MinPKeepsWhatIsLikelyEnough) {
  expect_shares(draw({.min_p = 0.5}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.min_p = 0.51}), {0, 1, 0, 0});
  expect_shares(draw({.min_p = 0.25}), {0.125, 0.5, 0.125, 0.25});
  expect_shares(draw({.min_p = 1}), {0, 1, 0, 0});
  expect_shares(draw({.top_p = 0.5, .min_p = 0.25}), {0, 1, 0, 0});
}

// Of a large vocabulary only the likeliest ids are sorted.
TEST(Sampler, RanksAsManyIdsAsItNeeds) {
  std::vector<double> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<double>(i * 7919 % 5000) * 1e-6;
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  const auto weight = [&](int32_t id) { return std::exp(logits[id] - logits[ids.front()]); };
  double all = 0;
  for (int32_t id = 0; id < 5000; ++id) all += weight(id);
  for (uint64_t i = 0; i < 50; ++i) {
    double rest = random.uniform(i) * all;
    const auto drawn = std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return (rest -= weight(id)) < 0; });
    EXPECT_EQ(sample(logits, {}, random, i), *drawn);
  }
}

TEST(Sampler, PenalizesWhatHasOccurred) {
  const std::vector<int32_t> tokens{0, 1, 1, 3, 3, 3};  // the last three were generated
  const auto penalized = [&](const SamplerOptions& options) {
    std::vector<double> logits{2, -2, 2, 1};
    penalize(logits, options, tokens, 3);
    return logits;
  };
  EXPECT_EQ(penalized({}), (std::vector<double>{2, -2, 2, 1}));
  EXPECT_EQ(penalized({.repetition_penalty = 2}), (std::vector<double>{1, -4, 2, 0.5}));
  EXPECT_EQ(penalized({.frequency_penalty = 0.5}), (std::vector<double>{2, -2, 2, -0.5}));
  EXPECT_EQ(penalized({.presence_penalty = 0.5}), (std::vector<double>{2, -2, 2, 0.5}));
  EXPECT_EQ(penalized({.repetition_penalty = 2, .frequency_penalty = 1, .presence_penalty = 1}),
            (std::vector<double>{1, -4, 2, -3.5}));
}

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
