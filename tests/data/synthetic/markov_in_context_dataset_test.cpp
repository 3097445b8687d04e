#include "data/synthetic/markov_in_context_dataset.hpp"

#include <algorithm>

#include "tests/data/synthetic/enumeration.hpp"

namespace heed::data {
namespace {

// The rows integrated out in closed form: a Dirichlet-multinomial for each of them.
double dirichlet_multinomial(const Tokens& tokens, int64_t vocab_size, double alpha) {
  const double share = alpha / static_cast<double>(vocab_size);
  double log_p = -std::log(static_cast<double>(vocab_size));
  for (int32_t s = 0; s < vocab_size; ++s) {
    int64_t n_s = 0;
    for (int32_t x = 0; x < vocab_size; ++x) {
      int64_t n_sx = 0;
      for (size_t t = 1; t < tokens.size(); ++t) n_sx += tokens[t - 1] == s && tokens[t] == x ? 1 : 0;
      log_p += std::lgamma(share + static_cast<double>(n_sx)) - std::lgamma(share);
      n_s += n_sx;
    }
    log_p += std::lgamma(alpha) - std::lgamma(alpha + static_cast<double>(n_s));
  }
  return std::exp(log_p);
}

TEST(MarkovInContext, IsADirichletMultinomialForEachToken) {
  for (const double alpha : {0.3, 2.0, 40.0}) {
    for (const auto& sizes : {std::pair{2, 6}, std::pair{3, 4}}) {
      const int64_t vocab_size = sizes.first, seq_len = sizes.second;  // a lambda cannot capture a structured binding
      SCOPED_TRACE(testing::Message() << "alpha " << alpha << " vocabulary " << vocab_size);
      const MarkovInContextDataset dataset({.vocab_size = vocab_size, .alpha = alpha, .seed = 4});
      expect_distribution(dataset, seq_len,
                          [&](const Tokens& tokens) { return dirichlet_multinomial(tokens, vocab_size, alpha); });
    }
  }
}

TEST(MarkovInContext, TheLossOfItsSequencesIsItsEntropy) {
  expect_no_excess(MarkovInContextDataset({.vocab_size = 8, .alpha = 2}), 64, 64);
}

TEST(MarkovInContext, EachStrategyIsBetterThanTheOneBefore) {
  const std::vector<ContextEntropy> losses = MarkovInContextDataset({.vocab_size = 8, .alpha = 2}).entropies(96);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0].nats, std::log(8.0));
  EXPECT_EQ(losses[0].standard_error, 0.0);
  const std::vector<std::string> names = {"uniform", "unigram", "bigram"};
  for (size_t k = 0; k < losses.size(); ++k) {
    EXPECT_EQ(losses[k].name, names[k]);
    EXPECT_FALSE(losses[k].context_tokens.has_value());
    EXPECT_LE(losses[k].standard_error, test::kReferenceError);
    if (k > 0) {
      EXPECT_LT(losses[k].nats, losses[k - 1].nats - test::kBetterStrategy);
    }
  }
}

// The mean loss of (n_x + b / V) / (n + b) on other sequences, for b below and above the best one.
TEST(MarkovInContext, NoOtherSmoothingMakesABetterUnigramStrategy) {
  constexpr int64_t kVocab = 6, kSeqLen = 40, kSequences = 20'000;
  const MarkovInContextDataset dataset({.vocab_size = kVocab, .alpha = 2});
  const double best = dataset.entropies(kSeqLen)[1].nats;
  double least = 1e9;
  for (const double b : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0}) {
    double loss = 0;
    for (int64_t row = 0; row < kSequences; ++row) {
      const Tokens tokens = train_tokens(dataset, 0, row, kSeqLen);
      std::vector<double> count(kVocab, b / kVocab);
      for (int64_t t = 1; t <= kSeqLen; ++t) {
        count[tokens[t - 1]] += 1;
        loss -= std::log(count[tokens[t]] / (static_cast<double>(t) + b));
      }
    }
    least = std::min(least, loss / (kSequences * kSeqLen));
  }
  EXPECT_NEAR(best, least, 2 * test::kReferenceError);  // two samples, and a coarse grid of b
}

TEST(MarkovInContext, TheReferenceLossesAreTheSameForEverySeed) {
  EXPECT_EQ(MarkovInContextDataset({.vocab_size = 4, .seed = 1}).entropies(16)[1].nats,
            MarkovInContextDataset({.vocab_size = 4, .seed = 2}).entropies(16)[1].nats);
}

TEST(MarkovInContext, Refusals) {
  expect_error<ConfigError>([] { MarkovInContextDataset({.vocab_size = 1025}); },
                            "data.vocab_size = 1025, with data.source = \"markov_in_context\" it must be 1 to 1024");
  expect_error<ConfigError>([] { MarkovInContextDataset({.alpha = 0}); },
                            "data.alpha holds 0, it must be in 1e-06 to 1000000000");
}

}  // namespace
}  // namespace heed::data
