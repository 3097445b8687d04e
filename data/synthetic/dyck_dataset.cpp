#include "data/synthetic/dyck_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

// Entropy of a yes or no, in nats.
double binary_entropy(double p) { return p <= 0 || p >= 1 ? 0.0 : -p * std::log(p) - (1 - p) * std::log(1 - p); }

}  // namespace

DyckDataset::DyckDataset(const DyckConfig& config)
    : SyntheticDataset(2 * config.num_brackets, config.seed),
      num_brackets_(config.num_brackets),
      max_depth_(config.max_depth) {
  require<ConfigError>(1 <= num_brackets_ && num_brackets_ <= kMaxBrackets,
                       "data.num_brackets = {}, it must be 1 to {}", num_brackets_, kMaxBrackets);
  require<ConfigError>(1 <= max_depth_ && max_depth_ <= kMaxDepth, "data.max_depth = {}, it must be 1 to {}",
                       max_depth_, kMaxDepth);
}

void DyckDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  SequenceRandom random(stream, row);
  std::vector<int32_t> open;
  for (int32_t& token : tokens) {
    const bool opens = random.uniform() < open_probability(static_cast<int64_t>(open.size()));
    const auto type = static_cast<int32_t>(random.below(num_brackets_));
    token = opens ? type : static_cast<int32_t>(num_brackets_) + open.back();
    if (opens) {
      open.push_back(type);
    } else {
      open.pop_back();
    }
  }
}

void DyckDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  const auto k = static_cast<int32_t>(num_brackets_);
  std::vector<int32_t> open;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const double p_open = open_probability(static_cast<int64_t>(open.size()));
    const bool opens = tokens[t] < k, closes = !opens && !open.empty() && tokens[t] - k == open.back();
    const double p = opens ? p_open / k : closes ? 1 - p_open : 0.0;
    if (t > 0) result[t - 1] = std::log(p);
    if (p == 0) {  // no word begins like this, nor anything longer
      std::fill(result.begin() + static_cast<int64_t>(t == 0 ? 0 : t - 1), result.end(), -INFINITY);
      return;
    }
    if (opens) {
      open.push_back(tokens[t]);
    } else {
      open.pop_back();
    }
  }
}

std::vector<ContextEntropy> DyckDataset::find_entropies(int64_t seq_len) const {
  std::vector<double> depth(std::min(max_depth_, seq_len + 1) + 1, 0.0);  // its distribution before token t
  depth[0] = 1;
  double mean_open = 0, mean_entropy = 0;
  for (int64_t t = 0; t <= seq_len; ++t) {
    std::vector<double> next(depth.size(), 0.0);
    for (size_t d = 0; d < depth.size(); ++d) {
      const double p_open = open_probability(static_cast<int64_t>(d));
      if (d + 1 < depth.size()) next[d + 1] += depth[d] * p_open;
      if (d > 0) next[d - 1] += depth[d] * (1 - p_open);
      if (t == 0) continue;
      mean_open += depth[d] * p_open / static_cast<double>(seq_len);
      mean_entropy += depth[d] * binary_entropy(p_open) / static_cast<double>(seq_len);
    }
    depth = std::move(next);
  }
  const double type = std::log(static_cast<double>(num_brackets_));
  return {{{}, binary_entropy(mean_open) + type, "unigram"},
          {{}, mean_entropy + type, "depth"},
          {{}, mean_entropy + mean_open * type, "bayes"}};
}

}  // namespace heed::data
