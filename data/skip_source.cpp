#include "data/skip_source.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

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
  return {config.vocab_size, config.offsets, config.alpha, config.seed, depth};
}

}  // namespace

SkipSource::SkipSource(const SkipConfig& config) : MarkovSource(markov_config(config)) {}

}  // namespace heed::data
