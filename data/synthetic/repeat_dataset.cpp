#include "data/synthetic/repeat_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"

namespace heed::data {

RepeatDataset::RepeatDataset(const RepeatConfig& config)
    : SyntheticDataset(config.vocab_size, config.seed), min_period_(config.min_period), max_period_(config.max_period) {
  require<ConfigError>(config.vocab_size >= 1, "data.vocab_size = {}, it must be at least 1", config.vocab_size);
  require<ConfigError>(1 <= min_period_ && min_period_ <= max_period_ && max_period_ <= kMaxPeriod,
                       "data.min_period = {} and data.max_period = {}, they must be in order and in 1 to {}",
                       min_period_, max_period_, kMaxPeriod);
}

void RepeatDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  SequenceRandom random(stream, row);
  const auto period = static_cast<size_t>(min_period_ + random.below(max_period_ - min_period_ + 1));
  for (size_t t = 0; t < tokens.size(); ++t) {
    tokens[t] = t < period ? static_cast<int32_t>(random.below(vocab_size())) : tokens[t - period];
  }
}

void RepeatDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  const int64_t num_periods = max_period_ - min_period_ + 1;
  const double uniform = 1.0 / static_cast<double>(vocab_size());
  // tokens[0] has probability 1 / V with every period, so the first posterior is the prior.
  std::vector<double> weight(num_periods, 1.0 / static_cast<double>(num_periods)), joint(num_periods);
  for (size_t i = 0; i < result.size(); ++i) {
    const auto t = static_cast<int64_t>(i) + 1;
    double p = 0;
    for (int64_t k = 0; k < num_periods; ++k) {
      const int64_t period = min_period_ + k;
      const double likelihood = t < period ? uniform : tokens[t] == tokens[t - period] ? 1.0 : 0.0;
      p += joint[k] = weight[k] * likelihood;
    }
    result[i] = std::log(p);
    if (p == 0) {  // an impossible sequence: no period explains it, nor any token after this one
      std::fill(result.begin() + static_cast<int64_t>(i), result.end(), -INFINITY);
      return;
    }
    for (int64_t k = 0; k < num_periods; ++k) weight[k] = joint[k] / p;
  }
}

std::vector<ContextEntropy> RepeatDataset::find_entropies(int64_t seq_len) const {
  const int64_t num_sequences = std::clamp<int64_t>((int64_t{1} << 20) / seq_len, 1, 1 << 14);
  std::vector<ContextEntropy> result = monte_carlo_losses({}, "bayes", seq_len, num_sequences);
  result.insert(result.begin(), {{}, std::log(static_cast<double>(vocab_size())), "uniform"});
  return result;
}

}  // namespace heed::data
