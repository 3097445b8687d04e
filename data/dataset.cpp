#include "data/dataset.hpp"

#include <algorithm>
#include <numeric>

#include "autograd/core/check.hpp"

namespace heed::data {

std::optional<double> Dataset::log_loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const {
  const std::optional<std::vector<double>> losses = target_losses(inputs, targets);
  return losses ? std::optional(std::accumulate(losses->begin(), losses->end(), 0.0)) : std::nullopt;
}

void shift_sequence(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets) {
  require<ShapeError>(!inputs.empty() && inputs.size() == targets.size() && tokens.size() == inputs.size() + 1,
                      "shift_sequence: {} tokens, {} inputs, {} targets; they must be T + 1, T and T with T at least 1",
                      tokens.size(), inputs.size(), targets.size());
  std::copy(tokens.begin(), tokens.end() - 1, inputs.begin());
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
}

void shift_padded_sequence(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets) {
  const size_t used = tokens.empty() ? 0 : tokens.size() - 1;
  require<ShapeError>(1 <= used && used <= inputs.size() && inputs.size() == targets.size(),
                      "shift_padded_sequence: {} tokens, {} inputs, {} targets; they must be 2 to T + 1, T and T",
                      tokens.size(), inputs.size(), targets.size());
  shift_sequence(tokens, inputs.first(used), targets.first(used));
  std::fill(inputs.begin() + static_cast<int64_t>(used), inputs.end(), 0);
  std::fill(targets.begin() + static_cast<int64_t>(used), targets.end(), kIgnoreTarget);
}

int64_t num_sequences(int64_t num_tokens, int64_t seq_len) {
  require<ValueError>(num_tokens >= 0 && seq_len >= 1,
                      "num_sequences: {} tokens with seq_len {}; they must be at least 0 and 1", num_tokens, seq_len);
  return std::max<int64_t>(num_tokens - seq_len, 0);
}

int64_t sequences_to_cover(int64_t num_targets, int64_t seq_len) {
  require<ValueError>(seq_len >= 1, "sequences_to_cover: seq_len = {}, it must be at least 1", seq_len);
  return num_targets / seq_len + (num_targets % seq_len != 0 ? 1 : 0);
}

RandomStream text_stream(uint32_t seed, TextRandomPlace place, uint64_t step) {
  return {seed, random_site(RandomDomain::data, 0, static_cast<uint32_t>(place)), step};
}

int64_t random_below(const RandomStream& stream, uint64_t index, int64_t count) {
  return static_cast<int64_t>(stream.uniform(index) * static_cast<double>(count));
}

}  // namespace heed::data
