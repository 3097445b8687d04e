#include "data/ngram_source.hpp"

#include <numeric>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

MarkovConfig markov_config(const NgramConfig& config) {
  constexpr int64_t kMaxOrder = MarkovChain::kMaxMemory + 1;
  require<ConfigError>(1 <= config.order && config.order <= kMaxOrder, "data.order = {}, it must be 1 to {}",
                       config.order, kMaxOrder);
  std::vector<int64_t> offsets(config.order - 1);
  std::iota(offsets.begin(), offsets.end(), 1);
  return {config.vocab_size, std::move(offsets), config.alpha, config.seed,
          fmt::format("data.order = {}", config.order)};
}

}  // namespace

NgramSource::NgramSource(const NgramConfig& config) : MarkovSource(markov_config(config)) {}

}  // namespace heed::data
