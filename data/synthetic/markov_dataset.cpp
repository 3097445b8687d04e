#include "data/synthetic/markov_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/synthetic/dirichlet.hpp"

namespace heed::data {

namespace {

using Chain = MarkovChain;

int64_t memory_of(const MarkovConfig& config) {
  return config.offsets.empty() ? 0 : *std::max_element(config.offsets.begin(), config.offsets.end());
}

void check_states(const MarkovConfig& config) {
  const int64_t memory = memory_of(config);
  require<ConfigError>(config.vocab_size >= 1, "data.vocab_size = {}, it must be at least 1", config.vocab_size);
  require<ConfigError>(bounded_power(config.vocab_size, memory, Chain::kMaxStates) <= Chain::kMaxStates,
                       "data.vocab_size = {} with {} makes {}^{} states, at most {} are allowed: lower one of the two",
                       config.vocab_size, config.depth, config.vocab_size, memory, Chain::kMaxStates);
  require<ConfigError>(memory <= Chain::kMaxMemory, "{} looks back {} tokens, at most {} are allowed", config.depth,
                       memory, Chain::kMaxMemory);
}

MarkovChain draw_chain(const MarkovConfig& config) {
  check_states(config);
  check_table(config);
  const int64_t memory = memory_of(config);
  return with_memory(
      {.bytes = markov_bytes(config.vocab_size, static_cast<int64_t>(config.offsets.size()), memory),
       .what = fmt::format("the dataset of data.vocab_size = {} with {}", config.vocab_size, config.depth),
       .advice = "lower one of the two"},
      [&] {
        return MarkovChain(
            config.vocab_size, config.offsets,
            hierarchical_dirichlet_rows(config.vocab_size, config.alpha, config.source_seed.value_or(config.seed)));
      });
}

}  // namespace

void check_table(const MarkovConfig& config) {
  const int64_t exponent = static_cast<int64_t>(config.offsets.size()) + 1;
  require<ConfigError>(config.vocab_size >= 1, "data.vocab_size = {}, it must be at least 1", config.vocab_size);
  require<ConfigError>(
      bounded_power(config.vocab_size, exponent, Chain::kMaxTableEntries) <= Chain::kMaxTableEntries,
      "data.vocab_size = {} with {} makes a table of {}^{} numbers, at most {} are allowed: lower one of the two",
      config.vocab_size, config.depth, config.vocab_size, exponent, Chain::kMaxTableEntries);
  require<ConfigError>(config.alpha.size() == config.offsets.size() + 1,
                       "data.alpha has {} values, {} needs {}: the unigram's first, then one for each longer context",
                       config.alpha.size(), config.depth, config.offsets.size() + 1);
  for (const double alpha : config.alpha) {
    require<ConfigError>(kMinAlpha <= alpha && alpha <= kMaxAlpha, "data.alpha holds {}, each must be in {} to {}",
                         alpha, kMinAlpha, kMaxAlpha);
  }
}

MarkovConfig markov_config(const NgramConfig& config) {
  constexpr int64_t kMaxOrder = MarkovChain::kMaxMemory + 1;
  require<ConfigError>(1 <= config.order && config.order <= kMaxOrder, "data.order = {}, it must be 1 to {}",
                       config.order, kMaxOrder);
  std::vector<int64_t> offsets(config.order - 1);
  std::iota(offsets.begin(), offsets.end(), 1);
  return {config.vocab_size, std::move(offsets), config.alpha,
          config.seed,       config.source_seed, fmt::format("data.order = {}", config.order)};
}

MarkovConfig markov_config(const SkipConfig& config) {
  std::string list;
  for (const int64_t offset : config.offsets) list += fmt::format("{}{}", list.empty() ? "" : ", ", offset);
  const std::string depth = fmt::format("data.offsets = [{}]", list);
  require<ConfigError>(!config.offsets.empty(), "{}, it must list at least one offset", depth);
  for (auto offset = config.offsets.begin(); offset != config.offsets.end(); ++offset) {
    require<ConfigError>(*offset >= 1, "{} holds {}, each must be at least 1", depth, *offset);
    require<ConfigError>(std::find(config.offsets.begin(), offset, *offset) == offset,
                         "{} holds {} twice, they must be distinct", depth, *offset);
  }
  return {config.vocab_size, config.offsets, config.alpha, config.seed, config.source_seed, depth};
}

MarkovDataset::MarkovDataset(const MarkovConfig& config)
    : SyntheticDataset(config.vocab_size, config.seed), chain_(draw_chain(config)) {}

void MarkovDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  const uint64_t stride = (tokens.size() + 3) / 4 * 4;
  chain_.sample(stream, static_cast<uint64_t>(row) * stride, tokens);
}

void MarkovDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  int64_t state = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    state = chain_.next_state(state, tokens[i]);
    result[i] = std::log(chain_.probability(static_cast<int64_t>(i) + 1, state, tokens[i + 1]));
  }
}

std::vector<ContextEntropy> MarkovDataset::find_entropies(int64_t seq_len) const {
  const std::span<const double> conditional = chain_.conditional_entropies();
  std::vector<ContextEntropy> result;
  for (int64_t k = 0; k <= chain_.memory(); ++k) {
    const int64_t num_short = std::min(seq_len, k);  // the first positions have a context of only 1 … k tokens
    double sum = static_cast<double>(seq_len - num_short) * conditional[k];
    for (int64_t known = 1; known <= num_short; ++known) sum += conditional[known];
    result.push_back({k, sum / static_cast<double>(seq_len), context_name(k)});
  }
  return result;
}

NgramDataset::NgramDataset(const NgramConfig& config) : MarkovDataset(markov_config(config)) {}

SkipDataset::SkipDataset(const SkipConfig& config) : MarkovDataset(markov_config(config)) {}

}  // namespace heed::data
