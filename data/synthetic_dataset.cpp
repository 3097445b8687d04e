#include "data/synthetic_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"

namespace heed::data {

namespace {

void check_sizes(const MarkovConfig& config) {
  using Chain = MarkovChain;
  const int64_t memory = config.offsets.empty() ? 0 : *std::max_element(config.offsets.begin(), config.offsets.end());
  const int64_t exponent = static_cast<int64_t>(config.offsets.size()) + 1;
  require<ConfigError>(config.vocab_size >= 1, "data.vocab_size = {}, it must be at least 1", config.vocab_size);
  require<ConfigError>(bounded_power(config.vocab_size, memory, Chain::kMaxStates) <= Chain::kMaxStates,
                       "data.vocab_size = {} with {} makes {}^{} states, at most {} are allowed: lower one of the two",
                       config.vocab_size, config.depth, config.vocab_size, memory, Chain::kMaxStates);
  require<ConfigError>(memory <= Chain::kMaxMemory, "{} looks back {} tokens, at most {} are allowed", config.depth,
                       memory, Chain::kMaxMemory);
  require<ConfigError>(
      bounded_power(config.vocab_size, exponent, Chain::kMaxTableEntries) <= Chain::kMaxTableEntries,
      "data.vocab_size = {} with {} makes a table of {}^{} numbers, at most {} are allowed: lower one of the two",
      config.vocab_size, config.depth, config.vocab_size, exponent, Chain::kMaxTableEntries);
}

void check_alpha(const MarkovConfig& config) {
  require<ConfigError>(config.alpha.size() == config.offsets.size() + 1,
                       "data.alpha has {} values, {} needs {}: the unigram's first, then one for each longer context",
                       config.alpha.size(), config.depth, config.offsets.size() + 1);
  for (const double alpha : config.alpha) {
    require<ConfigError>(kMinAlpha <= alpha && alpha <= kMaxAlpha, "data.alpha holds {}, each must be in {} to {}",
                         alpha, kMinAlpha, kMaxAlpha);
  }
}

MarkovChain draw_chain(const MarkovConfig& config) {
  check_sizes(config);
  check_alpha(config);
  const int64_t memory = config.offsets.empty() ? 0 : *std::max_element(config.offsets.begin(), config.offsets.end());
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

RandomPlace eval_place(Split split) {
  switch (split) {
    case Split::train:
      return RandomPlace::train_eval_sequences;
    case Split::validation:
      return RandomPlace::validation_sequences;
    case Split::test:
      return RandomPlace::test_sequences;
  }
  throw ValueError("eval_sequence: no such split");
}

RandomStream sequence_stream(uint32_t seed, RandomPlace place, uint64_t step) {
  return {seed, random_site(RandomDomain::data, 0, static_cast<uint32_t>(place)), step};
}

std::string context_name(int64_t context_tokens) {
  constexpr const char* kNames[] = {"unigram", "bigram", "trigram"};
  return context_tokens < 3 ? kNames[context_tokens] : fmt::format("{}-gram", context_tokens + 1);
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

}  // namespace

MarkovDataset::MarkovDataset(const MarkovConfig& config) : chain_(draw_chain(config)), seed_(config.seed) {}

void MarkovDataset::fill_sequence(const RandomStream& stream, int64_t row, std::span<int32_t> inputs,
                                  std::span<int32_t> targets) const {
  require<ValueError>(row >= 0, "sequence {} asked for, the first is 0", row);
  std::vector<int32_t> tokens(inputs.size() + 1);
  const uint64_t stride = (tokens.size() + 3) / 4 * 4;
  chain_.sample(stream, static_cast<uint64_t>(row) * stride, tokens);
  shift_sequence(tokens, inputs, targets);
}

void MarkovDataset::train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs,
                                   std::span<int32_t> targets) const {
  fill_sequence(sequence_stream(seed_, RandomPlace::train_sequences, step), row, inputs, targets);
}

int64_t MarkovDataset::num_eval_sequences(Split, int64_t seq_len) const {
  require<ValueError>(seq_len >= 1, "num_eval_sequences: seq_len = {}, it must be at least 1", seq_len);
  return (kMinEvalTargets + seq_len - 1) / seq_len;
}

void MarkovDataset::eval_sequence(Split split, int64_t index, std::span<int32_t> inputs,
                                  std::span<int32_t> targets) const {
  const int64_t count = num_eval_sequences(split, static_cast<int64_t>(inputs.size()));
  require<ValueError>(0 <= index && index < count, "eval_sequence: sequence {} of {}", index, count);
  fill_sequence(sequence_stream(seed_, eval_place(split), 0), index, inputs, targets);
}

std::optional<double> MarkovDataset::log_loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const {
  require<ShapeError>(inputs.size() == targets.size() && !inputs.empty(),
                      "log_loss: {} inputs, {} targets; they must be as many, and at least 1", inputs.size(),
                      targets.size());
  const auto require_token = [&](int32_t token) {
    require<ValueError>(0 <= token && token < vocab_size(), "log_loss: token {}, it must be 0 to {}", token,
                        vocab_size() - 1);
  };
  double loss = 0.0;
  int64_t state = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    require_token(inputs[i]);
    state = chain_.next_state(state, inputs[i]);
    if (targets[i] == kIgnoreTarget) continue;
    require_token(targets[i]);
    loss -= std::log(chain_.probability(static_cast<int64_t>(i) + 1, state, targets[i]));
  }
  return loss;
}

std::vector<ContextEntropy> MarkovDataset::entropies(int64_t seq_len) const {
  require<ValueError>(seq_len >= 1, "entropies: seq_len = {}, it must be at least 1", seq_len);
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
