#include "data/token_source.hpp"

#include "data/position_source.hpp"
#include "data/token_file.hpp"

namespace heed::data {

std::unique_ptr<Source> make_token_source(const TokenSourceConfig& config) {
  auto file = std::make_unique<TokenFile>(config.path);
  PositionSource::Parts parts{file->name(),  file->tokenizer(), nullptr,
                              file->sizes(), config.seed,       "the fractions given to heed data prepare"};
  if (config.whole) parts.sizes = {.train = file->size()};
  parts.text_changes = printable(file->provenance().source_changes);
  parts.tokens = std::move(file);
  return std::make_unique<PositionSource>(std::move(parts), config.seq_len);
}

}  // namespace heed::data
