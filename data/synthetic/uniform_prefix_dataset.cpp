#include "data/synthetic/uniform_prefix_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/synthetic/dirichlet.hpp"

namespace heed::data {

namespace {

int64_t table_entries(int64_t vocab_size, int64_t num_offsets) {
  return bounded_power(vocab_size, num_offsets + 1, MarkovChain::kMaxTableEntries);
}

std::vector<double> draw_rows(const MarkovConfig& config) {
  check_table(config);
  const auto num_offsets = static_cast<int64_t>(config.offsets.size());
  return with_memory(
      {.bytes = uniform_prefix_bytes(config.vocab_size, num_offsets),
       .what = fmt::format("the dataset of data.vocab_size = {} with {}", config.vocab_size, config.depth),
       .advice = "lower one of the two"},
      [&] {
        return hierarchical_dirichlet_rows(config.vocab_size, config.alpha, config.source_seed.value_or(config.seed));
      });
}

}  // namespace

int64_t uniform_prefix_bytes(int64_t vocab_size, int64_t num_offsets) {
  return 24 * table_entries(vocab_size, num_offsets);
}

UniformPrefixDataset::UniformPrefixDataset(const NgramConfig& config) : UniformPrefixDataset(markov_config(config)) {}

UniformPrefixDataset::UniformPrefixDataset(const SkipConfig& config) : UniformPrefixDataset(markov_config(config)) {}

UniformPrefixDataset::UniformPrefixDataset(const MarkovConfig& config)
    : SyntheticDataset(config.vocab_size, config.seed),
      offsets_(config.offsets),
      rows_(draw_rows(config)),
      row_cumulative_(cumulative(rows_, config.vocab_size)) {
  for (const int64_t offset : offsets_) prefix_ = std::max(prefix_, offset);
}

int64_t UniformPrefixDataset::context_of(std::span<const int32_t> tokens, int64_t t, size_t num_offsets) const {
  int64_t context = 0;
  for (size_t j = num_offsets; j-- > 0;) context = context * vocab_size() + tokens[t - offsets_[j]];
  return context;
}

void UniformPrefixDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  SequenceRandom random(stream, row);
  for (int64_t t = 0; t < static_cast<int64_t>(tokens.size()); ++t) {
    if (t < prefix_) {
      tokens[t] = static_cast<int32_t>(random.below(vocab_size()));
    } else {
      const double* sums = row_cumulative_.data() + context_of(tokens, t, offsets_.size()) * vocab_size();
      tokens[t] = static_cast<int32_t>(draw(sums, vocab_size(), random.uniform()));
    }
  }
}

void UniformPrefixDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  for (int64_t i = 0; i < static_cast<int64_t>(result.size()); ++i) {
    const int64_t t = i + 1;
    result[i] = t < prefix_ ? -std::log(static_cast<double>(vocab_size()))
                            : std::log(rows_[context_of(tokens, t, offsets_.size()) * vocab_size() + tokens[t]]);
  }
}

// Row c: the mean of the rows of all targets whose tokens at the first num_offsets offsets are c. The mean over uniform
// tokens at the other offsets counts as one target more, so that a context that occurs in no sequence has a row, too.
std::vector<double> UniformPrefixDataset::mean_rows(int64_t seq_len, size_t num_offsets, int64_t num_sequences) const {
  const int64_t v = vocab_size(), num_rows = static_cast<int64_t>(rows_.size()) / v;
  const int64_t num_contexts = bounded_power(v, static_cast<int64_t>(num_offsets), num_rows);
  std::vector<double> sums(num_contexts * v, 0.0);
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t x = 0; x < v; ++x) {
      sums[r % num_contexts * v + x] +=
          rows_[r * v + x] * static_cast<double>(num_contexts) / static_cast<double>(num_rows);
    }
  }
  std::vector<int32_t> tokens(seq_len + 1);
  for (int64_t row = 0; row < num_sequences; ++row) {
    draw_train(reference_stream(), num_sequences + row, tokens);
    for (int64_t t = std::max<int64_t>(prefix_, 1); t <= seq_len; ++t) {
      const double* source = rows_.data() + context_of(tokens, t, offsets_.size()) * v;
      double* sum = sums.data() + context_of(tokens, t, num_offsets) * v;
      for (int64_t x = 0; x < v; ++x) sum[x] += source[x];
    }
  }
  for (int64_t c = 0; c < num_contexts; ++c) {
    double total = 0;
    for (int64_t x = 0; x < v; ++x) total += sums[c * v + x];
    for (int64_t x = 0; x < v; ++x) sums[c * v + x] /= total;
  }
  return sums;
}

std::vector<ContextEntropy> UniformPrefixDataset::find_entropies(int64_t seq_len) const {
  const int64_t num_sequences = std::max<int64_t>(1, (int64_t{1} << 19) / seq_len);
  std::vector<Strategy> strategies;
  for (size_t k = 0; k < offsets_.size(); ++k) {
    strategies.push_back({{},
                          fmt::format("{}-offset", k),
                          [this, k, means = mean_rows(seq_len, k, num_sequences)](std::span<const int32_t> tokens,
                                                                                  std::span<double> result) {
                            log_probabilities(tokens, result);  // the prefix is the same for all
                            for (int64_t t = std::max<int64_t>(prefix_, 1); t <= static_cast<int64_t>(result.size());
                                 ++t) {
                              result[t - 1] = std::log(means[context_of(tokens, t, k) * vocab_size() + tokens[t]]);
                            }
                          }});
  }
  return monte_carlo_losses(std::move(strategies), "bayes", seq_len, num_sequences);
}

}  // namespace heed::data
