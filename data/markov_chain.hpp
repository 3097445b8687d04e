// A stationary chain over tokens: the law of the next token depends on the tokens at chosen offsets back.
//
//   p(x_t | past) = rows[r], r = sum over j of x_{t - offsets[j]} · V^j
//
// State: the last m = max(offsets) tokens as a base-V number, the newest token its lowest digit; V^m states. With no
// offsets m = 0, there is one state, and tokens are independent.
//
// The law of a window is that of the stationary chain: its first m tokens are a state drawn from the stationary law,
// and where fewer than m tokens are known, p(x | k tokens) is the exact marginal of that law, not a row.
//
// Memory in bytes: 16 · V^(number of offsets + 1) for the rows and their running sums, and at most 36 · V^m
// (markov_bytes()).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/core/philox.hpp"

namespace heed::data {

class MarkovChain {
 public:
  // Limits: states V^m, entries of the row table V^(number of offsets + 1), and m (which only V = 1 could exceed).
  static constexpr int64_t kMaxStates = int64_t{1} << 20, kMaxTableEntries = int64_t{1} << 25, kMaxMemory = 20;

  // rows (V^offsets.size(), V). Throws DataError if they are not probabilities, or if no stationary law is found:
  // the chain is then so close to falling apart into pieces that no window could be called typical of it.
  MarkovChain(int64_t vocab_size, std::vector<int64_t> offsets, std::vector<double> rows);

  int64_t vocab_size() const { return vocab_size_; }
  int64_t memory() const { return memory_; }  // m
  int64_t num_states() const { return num_states_; }

  // Also right for a prefix of fewer than m tokens (a shorter base-V number; the empty one is 0).
  int64_t next_state(int64_t state, int64_t token) const {
    return memory_ == 0 ? 0 : state % (num_states_ / vocab_size_) * vocab_size_ + token;
  }

  // p(token | the last min(num_known, m) tokens, which `state` holds). 0 after an impossible prefix.
  double probability(int64_t num_known, int64_t state, int64_t token) const;

  // p(x_t | state), V numbers.
  std::span<const double> row(int64_t state) const {
    return std::span(rows_).subspan(row_of_state_[state] * vocab_size_, vocab_size_);
  }

  // The law of k <= m tokens in a row, V^k numbers that sum to 1; of m tokens: the stationary law of the states.
  std::span<const double> prefix_law(int64_t k) const { return prefix_laws_[k]; }

  // H(x | k tokens before it) in nats under the stationary law, k = 0 … m.
  std::span<const double> conditional_entropies() const { return conditional_entropies_; }

  // Fills tokens with a fresh piece of the chain; uses stream.uniform(first_index … first_index + tokens.size() - 1).
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

// The memory of a chain within the limits above, in bytes.
int64_t markov_bytes(int64_t vocab_size, int64_t num_offsets, int64_t memory);

// base^exponent, or `limit` + 1 where that is more than `limit`. base >= 1, exponent >= 0.
int64_t bounded_power(int64_t base, int64_t exponent, int64_t limit);

}  // namespace heed::data
