#include "data/synthetic/hidden_markov_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"
#include "data/synthetic/dirichlet.hpp"

namespace heed::data {

namespace {

void check(const HiddenMarkovConfig& config) {
  using Dataset = HiddenMarkovDataset;
  require<ConfigError>(config.vocab_size >= 1, "data.vocab_size = {}, it must be at least 1", config.vocab_size);
  require<ConfigError>(1 <= config.num_states && config.num_states <= Dataset::kMaxStates,
                       "data.num_states = {}, it must be 1 to {}", config.num_states, Dataset::kMaxStates);
  require<ConfigError>(
      config.vocab_size <= Dataset::kMaxTableEntries / config.num_states,
      "data.vocab_size = {} with data.num_states = {} makes more than {} emission probabilities: lower "
      "one of the two",
      config.vocab_size, config.num_states, Dataset::kMaxTableEntries);
  require<ConfigError>(config.alpha.size() == 2, "data.alpha has {} values, it must have 2: transitions and emissions",
                       config.alpha.size());
  for (const double alpha : config.alpha) {
    require<ConfigError>(kMinAlpha <= alpha && alpha <= kMaxAlpha, "data.alpha holds {}, each must be in {} to {}",
                         alpha, kMinAlpha, kMaxAlpha);
  }
}

constexpr int64_t kLongestContext = 8;  // of the reference losses

std::vector<double> uniform(int64_t count) { return std::vector<double>(count, 1.0 / static_cast<double>(count)); }

}  // namespace

HiddenMarkovDataset::HiddenMarkovDataset(const HiddenMarkovConfig& config)
    : SyntheticDataset(config.vocab_size, config.seed), num_states_(config.num_states) {
  check(config);
  const int64_t k = num_states_, v = config.vocab_size;
  transitions_ = dirichlet_rows(uniform(k), k, k, config.alpha[0], config.source_seed, 0);
  emissions_ = dirichlet_rows(uniform(v), v, k, config.alpha[1], config.source_seed, 1);
  transition_cumulative_ = cumulative(transitions_, k);
  emission_cumulative_ = cumulative(emissions_, v);
}

void HiddenMarkovDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  SequenceRandom random(stream, row);
  int64_t state = random.below(num_states_);
  for (int32_t& token : tokens) {
    const double* sums = emission_cumulative_.data() + state * vocab_size();
    token = static_cast<int32_t>(draw(sums, vocab_size(), random.uniform()));
    state = draw(transition_cumulative_.data() + state * num_states_, num_states_, random.uniform());
  }
}

double HiddenMarkovDataset::forward(std::vector<double>& belief, int32_t token) const {
  std::vector<double> next(num_states_, 0.0);
  double p = 0;
  for (int64_t z = 0; z < num_states_; ++z) {
    const double joint = belief[z] * emissions_[z * vocab_size() + token];
    p += joint;
    for (int64_t to = 0; to < num_states_; ++to) next[to] += joint * transitions_[z * num_states_ + to];
  }
  // A token of probability 0 leaves no state; what follows it has probability 0, too.
  for (int64_t z = 0; z < num_states_; ++z) belief[z] = p > 0 ? next[z] / p : 0.0;
  return p;
}

void HiddenMarkovDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  std::vector<double> belief = uniform(num_states_);
  forward(belief, tokens[0]);
  for (size_t i = 0; i < result.size(); ++i) result[i] = std::log(forward(belief, tokens[i + 1]));
}

std::vector<std::vector<double>> HiddenMarkovDataset::state_distributions(int64_t seq_len) const {
  std::vector<std::vector<double>> result = {uniform(num_states_)};
  for (int64_t t = 0; t < seq_len; ++t) {
    std::vector<double> next(num_states_, 0.0);
    for (int64_t z = 0; z < num_states_; ++z) {
      for (int64_t to = 0; to < num_states_; ++to) next[to] += result[t][z] * transitions_[z * num_states_ + to];
    }
    result.push_back(next);
  }
  return result;
}

std::vector<ContextEntropy> HiddenMarkovDataset::find_entropies(int64_t seq_len) const {
  const auto distributions = state_distributions(seq_len);
  std::vector<Strategy> strategies;
  for (int64_t k = 0; k < std::min(seq_len, kLongestContext + 1); k = std::max<int64_t>(1, 2 * k)) {
    strategies.push_back({k, context_name(k), [&, k](std::span<const int32_t> tokens, std::span<double> result) {
                            for (int64_t t = 1; t <= static_cast<int64_t>(result.size()); ++t) {
                              const int64_t first = std::max<int64_t>(0, t - k);
                              std::vector<double> belief = distributions[first];
                              for (int64_t i = first; i < t; ++i) forward(belief, tokens[i]);
                              result[t - 1] = std::log(forward(belief, tokens[t]));
                            }
                          }});
  }
  const int64_t num_tokens = std::min<int64_t>(1 << 18, (1 << 25) / (num_states_ * num_states_));
  return monte_carlo_losses(std::move(strategies), "bayes", seq_len, std::max<int64_t>(1, num_tokens / seq_len));
}

}  // namespace heed::data
