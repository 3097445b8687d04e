#include "data/synthetic/synthetic_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

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

}  // namespace

std::string context_name(int64_t context_tokens) {
  constexpr const char* kNames[] = {"unigram", "bigram", "trigram"};
  return context_tokens < 3 ? kNames[context_tokens] : fmt::format("{}-gram", context_tokens + 1);
}

void SyntheticDataset::shift_masked(std::span<const int32_t> tokens, std::span<int32_t> inputs,
                                    std::span<int32_t> targets) const {
  shift_sequence(tokens, inputs, targets);
  std::fill_n(targets.begin(), std::min(first_target_, static_cast<int64_t>(targets.size())), kIgnoreTarget);
}

void SyntheticDataset::train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs,
                                      std::span<int32_t> targets) const {
  require<ValueError>(row >= 0, "sequence {} asked for, the first is 0", row);
  require<ShapeError>(!inputs.empty(), "train_sequence: 0 inputs, there must be at least 1");
  std::vector<int32_t> tokens(inputs.size() + 1);
  draw_train(synthetic_stream(seed_, RandomPlace::train_sequences, step), row, tokens);
  shift_masked(tokens, inputs, targets);
}

int64_t SyntheticDataset::num_eval_sequences(Split, int64_t seq_len) const {
  require<ValueError>(seq_len > first_target_, "num_eval_sequences: seq_len = {}, it must be at least {}", seq_len,
                      first_target_ + 1);
  return sequences_to_cover(kMinEvalTargets, seq_len - first_target_);
}

void SyntheticDataset::eval_sequence(Split split, int64_t index, std::span<int32_t> inputs,
                                     std::span<int32_t> targets) const {
  const int64_t count = num_eval_sequences(split, static_cast<int64_t>(inputs.size()));
  require<ValueError>(0 <= index && index < count, "eval_sequence: sequence {} of {}", index, count);
  std::vector<int32_t> tokens(inputs.size() + 1);
  draw_eval(split, synthetic_stream(seed_, eval_place(split), 0), index, tokens);
  shift_masked(tokens, inputs, targets);
}

void SyntheticDataset::check_targets(std::span<const int32_t> inputs, std::span<const int32_t> targets) const {
  require<ShapeError>(inputs.size() == targets.size() && !inputs.empty(),
                      "log_loss: {} inputs, {} targets; they must be as many, and at least 1", inputs.size(),
                      targets.size());
  const auto require_token = [&](int32_t token) {
    require<ValueError>(0 <= token && token < vocab_size_, "log_loss: token {}, it must be 0 to {}", token,
                        vocab_size_ - 1);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    require_token(inputs[i]);
    if (targets[i] == kIgnoreTarget) continue;
    require_token(targets[i]);
    require<ValueError>(i + 1 == inputs.size() || targets[i] == inputs[i + 1],
                        "log_loss: target {} is {}, it must be the next input, {}, or ignored", i, targets[i],
                        inputs[std::min(i + 1, inputs.size() - 1)]);
    require<ValueError>(static_cast<int64_t>(i) >= first_target_,
                        "log_loss: target {} is {}, targets before position {} must be ignored", i, targets[i],
                        first_target_);
  }
}

std::optional<std::vector<double>> SyntheticDataset::target_losses(std::span<const int32_t> inputs,
                                                                   std::span<const int32_t> targets) const {
  check_targets(inputs, targets);
  std::vector<int32_t> tokens(inputs.begin(), inputs.end());
  if (targets.back() != kIgnoreTarget) tokens.push_back(targets.back());
  std::vector<double> log_p(tokens.size() - 1);
  if (!log_p.empty()) log_probabilities(tokens, log_p);
  std::vector<double> losses(targets.size(), 0.0);
  for (size_t i = 0; i < log_p.size(); ++i) {
    if (targets[i] != kIgnoreTarget) losses[i] = -log_p[i];
  }
  return losses;
}

std::vector<ContextEntropy> SyntheticDataset::entropies(int64_t seq_len) const {
  require<ValueError>(seq_len > first_target_, "entropies: seq_len = {}, it must be at least {}", seq_len,
                      first_target_ + 1);
  const std::lock_guard lock(mutex_);
  const auto found = entropies_.find(seq_len);
  return found != entropies_.end() ? found->second : entropies_[seq_len] = find_entropies(seq_len);
}

std::vector<ContextEntropy> SyntheticDataset::monte_carlo_losses(std::vector<Strategy> strategies,
                                                                 const std::string& best, int64_t seq_len,
                                                                 int64_t num_sequences) const {
  strategies.push_back({std::nullopt, best, [this](std::span<const int32_t> tokens, std::span<double> result) {
                          log_probabilities(tokens, result);
                        }});
  std::vector<double> sum(strategies.size(), 0.0), sum_of_squares(strategies.size(), 0.0);
  std::vector<int32_t> tokens(seq_len + 1);
  std::vector<double> log_p(seq_len);
  // A standard error needs more than one sequence.
  num_sequences = std::max<int64_t>(num_sequences, 16);
  const auto count = static_cast<double>(num_sequences);
  for (int64_t row = 0; row < num_sequences; ++row) {
    draw_train(reference_stream(), row, tokens);
    for (size_t s = 0; s < strategies.size(); ++s) {
      strategies[s].log_probabilities(tokens, log_p);
      double loss = 0.0;
      for (int64_t i = first_target_; i < seq_len; ++i) loss -= log_p[i];
      loss /= static_cast<double>(seq_len - first_target_);
      sum[s] += loss;
      sum_of_squares[s] += loss * loss;
    }
  }
  std::vector<ContextEntropy> result;
  for (size_t s = 0; s < strategies.size(); ++s) {
    const double mean = sum[s] / count, variance = std::max(0.0, sum_of_squares[s] / count - mean * mean);
    result.push_back({strategies[s].context_tokens, mean, strategies[s].name, std::sqrt(variance / (count - 1))});
  }
  return result;
}

}  // namespace heed::data
