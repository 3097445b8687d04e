#include "data/synthetic/markov_in_context_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/synthetic/dirichlet.hpp"

namespace heed::data {

namespace {

// ln of (count of the next token + smoothing / V) / (count of all + smoothing), over the tokens before it.
void unigram_log_probabilities(double smoothing, int64_t vocab_size, std::span<const int32_t> tokens,
                               std::span<double> result) {
  std::vector<double> count(vocab_size, smoothing / static_cast<double>(vocab_size));
  for (size_t i = 0; i < result.size(); ++i) {
    count[tokens[i]] += 1;
    result[i] = std::log(count[tokens[i + 1]] / (static_cast<double>(i + 1) + smoothing));
  }
}

// The x in [low, high] with the least f(x), for an f that falls and then rises (Kiefer 1953, golden-section search).
template <class F>
double minimum_of(F f, double low, double high) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  for (int i = 0; i < 24; ++i) {
    const double left = high - ratio * (high - low), right = low + ratio * (high - low);
    if (f(left) < f(right)) {
      high = right;
    } else {
      low = left;
    }
  }
  return (low + high) / 2;
}

}  // namespace

MarkovInContextDataset::MarkovInContextDataset(const MarkovInContextConfig& config)
    : SyntheticDataset(config.vocab_size, config.seed), alpha_(config.alpha) {
  require<ConfigError>(1 <= config.vocab_size && config.vocab_size <= kMaxVocabSize,
                       "data.vocab_size = {}, with data.source = \"markov_in_context\" it must be 1 to {}",
                       config.vocab_size, kMaxVocabSize);
  require<ConfigError>(kMinAlpha <= alpha_ && alpha_ <= kMaxAlpha, "data.alpha holds {}, it must be in {} to {}",
                       alpha_, kMinAlpha, kMaxAlpha);
}

// Pólya's urn of token s holds alpha of uniform tokens and one of each token that has followed s.
void MarkovInContextDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  SequenceRandom random(stream, row);
  const auto length = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> followers(vocab_size() * length);
  std::vector<int64_t> count(vocab_size(), 0);
  tokens[0] = static_cast<int32_t>(random.below(vocab_size()));
  for (int64_t t = 1; t < length; ++t) {
    const int32_t current = tokens[t - 1];
    int64_t& n = count[current];
    const double ball = random.uniform() * (static_cast<double>(n) + alpha_) - static_cast<double>(n);
    if (ball < 0) {
      tokens[t] = followers[current * length + static_cast<int64_t>(ball + static_cast<double>(n))];
    } else {
      const auto token = static_cast<int64_t>(ball / alpha_ * static_cast<double>(vocab_size()));
      tokens[t] = static_cast<int32_t>(std::min(token, vocab_size() - 1));
    }
    followers[current * length + n++] = tokens[t];
  }
}

void MarkovInContextDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  const int64_t v = vocab_size();
  std::vector<int32_t> pair_count(v * v, 0), count(v, 0);
  for (size_t i = 0; i < result.size(); ++i) {
    int32_t& n_sx = pair_count[tokens[i] * v + tokens[i + 1]];
    int32_t& n_s = count[tokens[i]];
    result[i] = std::log((n_sx + alpha_ / static_cast<double>(v)) / (n_s + alpha_));
    ++n_sx;
    ++n_s;
  }
}

// The mean loss of a smoothing needs only how often a token with n occurrences in t tokens came next.
double MarkovInContextDataset::best_smoothing(int64_t seq_len) const {
  const int64_t num_sequences = std::max<int64_t>(1, (1 << 17) / seq_len);
  std::vector<int32_t> tokens(seq_len + 1);
  std::map<std::pair<int64_t, int64_t>, int64_t> next;  // (t, n): how often
  for (int64_t row = 0; row < num_sequences; ++row) {
    draw_train(reference_stream(), row, tokens);
    std::vector<int64_t> count(vocab_size(), 0);
    for (int64_t t = 1; t <= seq_len; ++t) {
      ++count[tokens[t - 1]];
      ++next[{t, count[tokens[t]]}];
    }
  }
  const auto loss = [&](double log_smoothing) {
    const double b = std::exp(log_smoothing);
    double sum = 0;
    for (const auto& [place, times] : next) {
      const auto [t, n] = place;
      const double p = (static_cast<double>(n) + b / static_cast<double>(vocab_size())) / (static_cast<double>(t) + b);
      sum -= static_cast<double>(times) * std::log(p);
    }
    return sum;
  };
  return std::exp(minimum_of(loss, std::log(1e-3), std::log(1e6)));
}

std::vector<ContextEntropy> MarkovInContextDataset::find_entropies(int64_t seq_len) const {
  const int64_t num_sequences = std::clamp<int64_t>((int64_t{1} << 21) / seq_len, 1, 1 << 14);
  const double smoothing = best_smoothing(seq_len);
  const auto unigram = [&](std::span<const int32_t> tokens, std::span<double> result) {
    unigram_log_probabilities(smoothing, vocab_size(), tokens, result);
  };
  std::vector<ContextEntropy> result = monte_carlo_losses({{{}, "unigram", unigram}}, "bigram", seq_len, num_sequences);
  result.insert(result.begin(), {{}, std::log(static_cast<double>(vocab_size())), "uniform"});
  return result;
}

}  // namespace heed::data
