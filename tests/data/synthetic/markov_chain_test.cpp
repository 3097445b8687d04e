// The chain against brute force: every sequence of a sequence is enumerated, its probability taken from the rows alone.
#include "data/synthetic/markov_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "autograd/core/check.hpp"
#include "data/synthetic/dirichlet.hpp"
#include "data/synthetic/markov_dataset.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::data {
namespace {

using Tokens = std::vector<int32_t>;

std::vector<Tokens> all_sequences(int64_t vocab_size, int64_t length) {
  std::vector<Tokens> sequences = {{}};
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Tokens> longer;
    for (const Tokens& sequence : sequences) {
      for (int32_t x = 0; x < vocab_size; ++x) {
        longer.push_back(sequence);
        longer.back().push_back(x);
      }
    }
    sequences = std::move(longer);
  }
  return sequences;
}

class BruteForce {
 public:
  BruteForce(int64_t vocab_size, std::vector<int64_t> offsets, std::vector<double> rows)
      : vocab_size_(vocab_size), offsets_(std::move(offsets)), rows_(std::move(rows)) {
    for (const int64_t offset : offsets_) memory_ = std::max(memory_, offset);
    find_stationary_law();
  }

  // The law of sequences of `length` tokens.
  std::map<Tokens, double> sequence_law(int64_t length) const {
    std::map<Tokens, double> law;
    for (const Tokens& sequence : all_sequences(vocab_size_, std::max(length, memory_))) {
      double p = stationary_.at(Tokens(sequence.begin(), sequence.begin() + memory_));
      for (size_t t = memory_; t < sequence.size(); ++t) p *= next(sequence, t);
      law[Tokens(sequence.begin(), sequence.begin() + length)] += p;
    }
    return law;
  }

 private:
  // p(sequence[t] | the tokens before it)
  double next(const Tokens& sequence, size_t t) const {
    int64_t row = 0, place = 1;
    for (const int64_t offset : offsets_) {
      row += sequence[t - offset] * place;
      place *= vocab_size_;
    }
    return rows_[row * vocab_size_ + sequence[t]];
  }

  // The transition matrix, squared until its rows are equal.
  void find_stationary_law() {
    const std::vector<Tokens> states = all_sequences(vocab_size_, memory_);
    const size_t n = states.size();
    std::map<Tokens, size_t> index;
    for (size_t s = 0; s < n; ++s) index[states[s]] = s;
    std::vector<std::vector<long double>> power(n, std::vector<long double>(n, 0.0L));
    for (size_t s = 0; s < n; ++s) {
      for (int32_t x = 0; x < vocab_size_; ++x) {
        Tokens sequence = states[s];
        sequence.push_back(x);
        power[s][index[Tokens(sequence.begin() + 1, sequence.end())]] += next(sequence, memory_);
      }
    }
    for (int squaring = 0; squaring < 40; ++squaring) {
      std::vector<std::vector<long double>> square(n, std::vector<long double>(n, 0.0L));
      for (size_t i = 0; i < n; ++i) {
        long double sum = 0.0L;
        for (size_t k = 0; k < n; ++k) {
          for (size_t j = 0; j < n; ++j) square[i][j] += power[i][k] * power[k][j];
        }
        for (const long double p : square[i]) sum += p;
        for (long double& p : square[i]) p /= sum;
      }
      power = std::move(square);
    }
    for (size_t s = 0; s < n; ++s) stationary_[states[s]] = static_cast<double>(power[0][s]);
  }

  int64_t vocab_size_;
  std::vector<int64_t> offsets_;
  std::vector<double> rows_;
  int64_t memory_ = 0;
  std::map<Tokens, double> stationary_;
};

double entropy(const std::map<Tokens, double>& law, int64_t begin, int64_t end) {
  std::map<Tokens, double> marginal;
  for (const auto& [tokens, p] : law) marginal[Tokens(tokens.begin() + begin, tokens.begin() + end)] += p;
  double sum = 0.0;
  for (const auto& [tokens, p] : marginal) sum -= p * std::log(p);
  return sum;
}

double prefix_probability(const std::map<Tokens, double>& law, const Tokens& tokens, int64_t length) {
  double sum = 0.0;
  for (const auto& [other, p] : law) sum += std::equal(tokens.begin(), tokens.begin() + length, other.begin()) ? p : 0;
  return sum;
}

// Entropies and log-losses of sequences of several lengths, from one token up to longer than the chain remembers.
void compare_with_brute_force(const MarkovDataset& dataset, const std::vector<int64_t>& offsets,
                              const std::vector<double>& alpha, uint32_t seed) {
  const int64_t vocab_size = dataset.vocab_size();
  const BruteForce brute_force(vocab_size, offsets, hierarchical_dirichlet_rows(vocab_size, alpha, seed));
  for (const int64_t seq_len : {1, 2, 3, 5}) {
    SCOPED_TRACE("seq_len " + std::to_string(seq_len));
    const auto law = brute_force.sequence_law(seq_len + 1);
    const std::vector<ContextEntropy> entropies = dataset.entropies(seq_len);
    ASSERT_GT(entropies.back().nats, 0.1);  // a chain that has settled on one token would show little
    ASSERT_EQ(static_cast<int64_t>(entropies.size()), dataset.chain().memory() + 1);
    for (int64_t k = 0; k <= dataset.chain().memory(); ++k) {
      double sum = 0.0;
      for (int64_t target = 1; target <= seq_len; ++target) {
        const int64_t known = std::min(target, k);
        sum += entropy(law, target - known, target + 1) - entropy(law, target - known, target);
      }
      EXPECT_EQ(entropies[k].context_tokens, k);
      EXPECT_NEAR(entropies[k].nats, sum / static_cast<double>(seq_len), test::kF64) << "context " << k;
    }
    double mean_loss = 0.0;
    for (const auto& [tokens, p] : law) {
      const double loss = *dataset.log_loss(std::span(tokens).first(seq_len), std::span(tokens).last(seq_len));
      EXPECT_NEAR(loss, -std::log(p / prefix_probability(law, tokens, 1)), test::kF64);
      mean_loss += p * loss / static_cast<double>(seq_len);
    }
    EXPECT_NEAR(mean_loss, entropies.back().nats, test::kF64);
  }
}

TEST(BruteForce, NgramSourcesOfOrders1To4) {
  const std::vector<double> alpha = {12.0, 9.0, 6.0, 4.0};
  for (const int64_t vocab_size : {2, 3}) {
    for (int64_t order = 1; order <= 4; ++order) {
      SCOPED_TRACE("vocabulary " + std::to_string(vocab_size) + " order " + std::to_string(order));
      const std::vector<double> levels(alpha.begin(), alpha.begin() + order);
      std::vector<int64_t> offsets(order - 1);
      std::iota(offsets.begin(), offsets.end(), 1);
      compare_with_brute_force(NgramDataset({order, vocab_size, levels, 1}), offsets, levels, 1);
    }
  }
}

TEST(BruteForce, SkipDatasets) {
  const std::vector<std::vector<int64_t>> cases = {{2}, {1, 3}, {3, 1}, {2, 3}, {3, 1, 2}};
  for (const std::vector<int64_t>& offsets : cases) {
    SCOPED_TRACE(testing::PrintToString(offsets));
    const std::vector<double> alpha(offsets.size() + 1, 9.0);
    compare_with_brute_force(SkipDataset({offsets, 3, alpha, 1}), offsets, alpha, 1);
  }
}

TEST(MarkovChain, StationaryLawIsAFixedPointAndSumsToOne) {
  const SkipDataset skip({{1, 3}, 6, {6.0, 3.0, 2.0}, 2});
  const NgramDataset ngram({3, 32, {32, 8, 4}, 1});
  for (const MarkovDataset* dataset :
       {static_cast<const MarkovDataset*>(&skip), static_cast<const MarkovDataset*>(&ngram)}) {
    const MarkovChain& chain = dataset->chain();
    const auto law = chain.prefix_law(chain.memory());
    std::vector<double> next(law.size(), 0.0);
    for (int64_t state = 0; state < chain.num_states(); ++state) {
      for (int64_t x = 0; x < chain.vocab_size(); ++x) {
        next[chain.next_state(state, x)] += law[state] * chain.row(state)[x];
      }
    }
    double defect = 0.0;
    for (size_t state = 0; state < law.size(); ++state) defect += std::abs(next[state] - law[state]);
    EXPECT_LT(defect, test::kF64);
    for (int64_t k = 0; k <= chain.memory(); ++k) {
      const auto prefix_law = chain.prefix_law(k);
      EXPECT_NEAR(std::accumulate(prefix_law.begin(), prefix_law.end(), 0.0), 1.0, test::kF64) << k;
    }
  }
}

TEST(MarkovChain, PeriodicChainsSettle) {
  const MarkovChain cycle(3, {1}, {0, 1, 0, 0, 0, 1, 1, 0, 0});
  for (const double p : cycle.prefix_law(1)) EXPECT_NEAR(p, 1.0 / 3.0, test::kF64);
  EXPECT_NEAR(cycle.conditional_entropies()[0], std::log(3.0), test::kF64);
  EXPECT_EQ(cycle.conditional_entropies()[1], 0.0);
  // 0 and 2 always go to 1, so the period is 2, and the uniform start is far from the stationary law.
  const MarkovChain star(3, {1}, {0, 1, 0, 0.3, 0, 0.7, 0, 1, 0});
  EXPECT_NEAR(star.prefix_law(1)[0], 0.15, test::kF64);
  EXPECT_NEAR(star.prefix_law(1)[1], 0.5, test::kF64);
  EXPECT_NEAR(star.prefix_law(1)[2], 0.35, test::kF64);
}

TEST(MarkovChain, SeparatePiecesKeepTheirShareOfTheUniformStart) {
  const MarkovChain chain(2, {1}, {1, 0, 0, 1});
  EXPECT_NEAR(chain.conditional_entropies()[0], std::log(2.0), test::kF64);
  EXPECT_EQ(chain.conditional_entropies()[1], 0.0);
}

TEST(MarkovChain, NearlySeparatePiecesAreRefused) {
  try {
    const MarkovChain chain(2, {1}, {1 - 1e-9, 1e-9, 3e-9, 1 - 3e-9});
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("no stationary law"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("data.alpha"), std::string::npos) << error.what();
  }
}

TEST(MarkovChain, RowsThatAreNoLawAreRefused) {
  EXPECT_THROW(MarkovChain(2, {}, {0.5, 0.4}), DataError);
  EXPECT_THROW(MarkovChain(2, {}, {1.5, -0.5}), DataError);
  EXPECT_THROW(MarkovChain(2, {}, {NAN, 0.5}), DataError);
  EXPECT_THROW(MarkovChain(2, {}, {INFINITY, 0.5}), DataError);
  EXPECT_THROW(MarkovChain(2, {1}, {0.5, 0.5}), DataError);
  EXPECT_THROW(MarkovChain(2, {0}, {0.5, 0.5, 0.5, 0.5}), DataError);
}

TEST(MarkovChain, ImpossibleTokensAreNeverDrawn) {
  const MarkovChain chain(4, {1}, {0, 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25});
  std::vector<int32_t> tokens(10'000);
  chain.sample({1, 2, 3}, 0, tokens);
  for (const int32_t token : tokens) ASSERT_TRUE(token == 1 || token == 2);
  EXPECT_NEAR(chain.probability(0, 0, 0), 0.0, test::kF64);
  EXPECT_EQ(chain.probability(1, 0, 0), 0.0);
  EXPECT_EQ(chain.probability(1, 0, 1), 0.5);
}

TEST(MarkovChain, TheRemotestProbabilitiesStayFinite) {
  const MarkovChain chain(2, {}, {1e-300, 1.0});
  EXPECT_EQ(chain.probability(0, 0, 0), 1e-300);
  EXPECT_NEAR(chain.conditional_entropies()[0], 0.0, test::kF64);
  std::vector<int32_t> tokens(1000);
  chain.sample({1, 2, 3}, 0, tokens);
  for (const int32_t token : tokens) ASSERT_EQ(token, 1);
}

TEST(BoundedPower, SaturatesAboveItsLimit) {
  EXPECT_EQ(bounded_power(2, 20, 1 << 20), 1 << 20);
  EXPECT_EQ(bounded_power(2, 21, 1 << 20), (1 << 20) + 1);
  EXPECT_EQ(bounded_power(INT64_MAX, INT64_MAX, 1 << 20), (1 << 20) + 1);
  EXPECT_EQ(bounded_power(1, INT64_MAX, 1 << 20), 1);
  EXPECT_EQ(bounded_power(7, 0, 1 << 20), 1);
}

}  // namespace
}  // namespace heed::data
