// A stationary Markov chain over tokens: the distribution of the next token depends on the tokens at given offsets
// back.
//
//   p(x_t | past) = rows[r], r = sum over j of x_{t - offsets[j]} · V^j
//
// State: the last m = max(offsets) tokens as a base-V number, the newest token its lowest digit; V^m states. Without
// offsets, m = 0, there is one state, and tokens are independent.
//
// Sequences are samples of the stationary chain: the first m tokens are a state drawn from the stationary distribution.
// If fewer than m tokens are known, p(x | k tokens) is the exact marginal of that distribution, not a row.
//
// Memory in bytes: 16 · V^(number of offsets + 1) for the rows and their cumulative sums, and at most 36 · V^m for the
// states (markov_bytes()).
//
// The rows of a random chain are drawn from a hierarchical Dirichlet distribution:
// hierarchical_dirichlet_rows() (data/synthetic/dirichlet.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/core/philox.hpp"

namespace heed::data {

class MarkovChain {
 public:
  // Limits of the number of states V^m, of the entries of the row table V^(number of offsets + 1), and of m (a limit
  // that only V = 1 could reach first).
  static constexpr int64_t kMaxStates = int64_t{1} << 20, kMaxTableEntries = int64_t{1} << 25, kMaxMemory = 20;

  // rows (V^offsets.size(), V). Throws DataError if a limit is exceeded, if the rows are not probabilities, or if no
  // stationary distribution is found: the chain is then so close to reducible that no sequence would be typical of it.
  MarkovChain(int64_t vocab_size, std::vector<int64_t> offsets, std::vector<double> rows);

  int64_t vocab_size() const { return vocab_size_; }
  int64_t memory() const { return memory_; }  // m
  int64_t num_states() const { return num_states_; }

  // Also correct for a prefix of fewer than m tokens (a shorter base-V number; the empty prefix is 0).
  int64_t next_state(int64_t state, int64_t token) const {
    return memory_ == 0 ? 0 : state % (num_states_ / vocab_size_) * vocab_size_ + token;
  }

  // p(token | the last min(num_known, m) tokens), which are the digits of `state`. 0 after a prefix of probability 0.
  double probability(int64_t num_known, int64_t state, int64_t token) const;

  // p(x_t | state), V values.
  std::span<const double> row(int64_t state) const {
    return std::span(rows_).subspan(row_of_state_[state] * vocab_size_, vocab_size_);
  }

  // Distribution of k <= m consecutive tokens, V^k values that sum to 1; for k = m, the stationary distribution.
  std::span<const double> prefix_law(int64_t k) const { return prefix_laws_[k]; }

  // Conditional entropies H(x | k previous tokens) in nats under the stationary distribution, k = 0 … m.
  std::span<const double> conditional_entropies() const { return conditional_entropies_; }

  // Fills `tokens` with a new sample of the chain, from stream.uniform(first_index … first_index + tokens.size() - 1).
  void sample(const RandomStream& stream, uint64_t first_index, std::span<int32_t> tokens) const;

 private:
  void check_rows() const;
  void find_row_of_state(std::span<const int64_t> offsets);
  std::vector<double> stationary_law() const;
  void find_prefix_laws();
  void find_conditional_entropies();

  int64_t vocab_size_;
  int64_t memory_ = 0;
  int64_t num_states_ = 1;
  std::vector<double> rows_;
  std::vector<double> row_cumulative_;
  std::vector<int32_t> row_of_state_;
  std::vector<std::vector<double>> prefix_laws_;
  std::vector<double> state_cumulative_;
  std::vector<double> conditional_entropies_;
};

// Memory of a chain within the limits above, in bytes.
int64_t markov_bytes(int64_t vocab_size, int64_t num_offsets, int64_t memory);

// min(base^exponent, limit + 1), without overflow. base >= 1, exponent >= 0.
int64_t bounded_power(int64_t base, int64_t exponent, int64_t limit);

}  // namespace heed::data
