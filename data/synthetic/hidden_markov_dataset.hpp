// Hidden Markov model: tokens are emitted by a Markov chain of K hidden states, of which a model sees nothing.
//
//   z_0 uniform;  p(z_t | z_{t-1}) = transitions[z_{t-1}][z_t];  p(x_t | z_t) = emissions[z_t][x_t]
//
// Transitions (K, K) and emissions (K, V): rows drawn from Dir(alpha[0] · uniform) and Dir(alpha[1] · uniform) by
// source_seed. The Bayes predictor is the forward algorithm (Rabiner 1989, "A tutorial on hidden Markov models"):
//
//   b_0 = uniform;  p(x | x_0 … x_{t-1}) = sum over z of b_t(z) emissions[z][x]
//   b_{t+1}(z') = sum over z of b_t(z) emissions[z][x_t] transitions[z][z'] / p(x_t | x_0 … x_{t-1})
//
// Reference losses: contexts of 0, 1, 2, 4 and 8 tokens: the forward algorithm over the last k tokens, from the exact
// distribution of the state k tokens ago; then "bayes", over all. Monte-Carlo means over 2^25 / K^2 tokens, at
// most 2^18.
#pragma once

#include "data/synthetic/synthetic_dataset.hpp"

namespace heed::data {

struct HiddenMarkovConfig {
  int64_t vocab_size = 16;
  int64_t num_states = 4;              // K
  std::vector<double> alpha = {1, 1};  // concentrations of the rows: transitions, emissions
  uint32_t seed = 1;                   // of the sequences
  uint32_t source_seed = 1;            // of transitions and emissions
};

class HiddenMarkovDataset final : public SyntheticDataset {
 public:
  static constexpr int64_t kMaxStates = 64, kMaxTableEntries = int64_t{1} << 20;

  // Throws ConfigError with the key.
  explicit HiddenMarkovDataset(const HiddenMarkovConfig& config);

  std::span<const double> transitions() const { return transitions_; }
  std::span<const double> emissions() const { return emissions_; }

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;

  // Replaces the distribution of the state before a token by that after it; returns the probability of the token.
  double forward(std::vector<double>& belief, int32_t token) const;
  // Distribution of the state for each position 0 … seq_len.
  std::vector<std::vector<double>> state_distributions(int64_t seq_len) const;

  int64_t num_states_;
  std::vector<double> transitions_, emissions_, transition_cumulative_, emission_cumulative_;
};

// Memory of the tables in bytes.
inline int64_t hidden_markov_bytes(int64_t vocab_size, int64_t num_states) {
  return 16 * num_states * (num_states + vocab_size);
}

}  // namespace heed::data
