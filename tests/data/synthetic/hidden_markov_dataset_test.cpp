#include "data/synthetic/hidden_markov_dataset.hpp"

#include "tests/data/synthetic/enumeration.hpp"

namespace heed::data {
namespace {

// The sum over all paths of hidden states.
double over_paths(const Tokens& tokens, int64_t vocab_size, int64_t num_states, const HiddenMarkovDataset& dataset) {
  double sum = 0;
  for (const Tokens& path : all_sequences(num_states, static_cast<int64_t>(tokens.size()))) {
    double p = 1.0 / static_cast<double>(num_states);
    for (size_t t = 0; t < tokens.size(); ++t) {
      if (t > 0) p *= dataset.transitions()[path[t - 1] * num_states + path[t]];
      p *= dataset.emissions()[path[t] * vocab_size + tokens[t]];
    }
    sum += p;
  }
  return sum;
}

TEST(HiddenMarkov, IsASumOverPathsOfStates) {
  for (const int64_t num_states : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << num_states << " states");
    const HiddenMarkovDataset dataset({.vocab_size = 3, .num_states = num_states, .alpha = {0.7, 3}, .source_seed = 5});
    expect_distribution(dataset, 4, [&](const Tokens& tokens) { return over_paths(tokens, 3, num_states, dataset); });
  }
}

// The entropy of a token given the last k, from the enumerated distribution.
TEST(HiddenMarkov, ContextsHaveTheEntropyOfTheirTokens) {
  constexpr int64_t kSeqLen = 5;
  const HiddenMarkovDataset dataset({.vocab_size = 2, .num_states = 3, .alpha = {1, 1}, .source_seed = 2});
  const std::vector<ContextEntropy> losses = dataset.entropies(kSeqLen);
  ASSERT_EQ(losses.size(), 5u);  // 0, 1, 2 and 4 tokens, and all
  const std::vector<Tokens> sequences = all_sequences(2, kSeqLen + 1);
  std::vector<double> probabilities;
  for (const Tokens& tokens : sequences) probabilities.push_back(over_paths(tokens, 2, 3, dataset));
  const auto entropy = [&](int64_t begin, int64_t end) {
    std::vector<double> marginal(size_t{1} << (end - begin), 0.0);
    for (size_t i = 0; i < sequences.size(); ++i) {
      size_t number = 0;
      for (int64_t t = begin; t < end; ++t) number = 2 * number + static_cast<size_t>(sequences[i][t]);
      marginal[number] += probabilities[i];
    }
    double sum = 0;
    for (const double p : marginal) sum -= p * std::log(p);
    return sum;
  };
  for (size_t i = 0; i < 4; ++i) {
    const int64_t k = losses[i].context_tokens.value();
    EXPECT_EQ(k, (std::vector<int64_t>{0, 1, 2, 4}[i]));
    double exact = 0;
    for (int64_t t = 1; t <= kSeqLen; ++t) {
      const int64_t first = std::max<int64_t>(0, t - k);
      exact += (entropy(first, t + 1) - entropy(first, t)) / kSeqLen;
    }
    EXPECT_LE(std::abs(losses[i].nats - exact), kSigmas * losses[i].standard_error) << k;
  }
}

TEST(HiddenMarkov, TheLossOfItsSequencesIsItsEntropy) {
  const HiddenMarkovDataset dataset({.vocab_size = 16, .num_states = 8, .alpha = {1, 1}, .source_seed = 3});
  expect_no_excess(dataset, 64, 64);
  for (const ContextEntropy& loss : dataset.entropies(64))
    EXPECT_LE(loss.standard_error, test::kReferenceError) << loss.name;
}

TEST(HiddenMarkov, Refusals) {
  expect_error<ConfigError>([] { HiddenMarkovDataset({.alpha = {1}}); },
                            "data.alpha has 1 values, it must have 2: transitions and emissions");
  expect_error<ConfigError>([] { HiddenMarkovDataset({.num_states = 65}); },
                            "data.num_states = 65, it must be 1 to 64");
  expect_error<ConfigError>([] { HiddenMarkovDataset({.vocab_size = 1 << 19}); },
                            "data.vocab_size = 524288 with data.num_states = 4 makes more than 1048576 emission "
                            "probabilities: lower one of the two");
}

}  // namespace
}  // namespace heed::data
