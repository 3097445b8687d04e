#include "data/text_source.hpp"

#include "autograd/core/check.hpp"
#include "data/line_source.hpp"
#include "data/position_source.hpp"
#include "data/text_encoding.hpp"

namespace heed::data {

namespace {

std::vector<int32_t> all_tokens(const TextFile& file, const Tokenizer& tokenizer, const Progress& progress,
                                std::string& changes) {
  std::vector<int32_t> tokens;
  changes = encode_file(
      file, tokenizer,
      [&](std::span<const int32_t> piece, std::string_view) {
        tokens.insert(tokens.end(), piece.begin(), piece.end());
      },
      progress);
  return tokens;
}

}  // namespace

std::unique_ptr<Source> make_text_source(const TextConfig& config, const Progress& progress) {
  const bool by_lines = config.split == TextSplit::lines;
  require<ConfigError>(by_lines || (!config.parts.val_lines && !config.parts.test_lines),
                       "data.val_lines and data.test_lines are only for data.split = \"lines\": take data.val_fraction "
                       "and data.test_fraction");
  const TextFile file(config.path);
  if (!by_lines) {
    // Of an empty file no tokenizer could be made.
    const SplitSizes none = split_by_fractions(0, config.parts.val_fraction, config.parts.test_fraction);
    if (file.size() == 0) require_windows(file.name(), none, config.seq_len);
  }
  std::unique_ptr<Tokenizer> tokenizer =
      make_tokenizer(file, {config.tokenizer, config.vocab_size, by_lines}, progress);
  std::string changes;
  std::vector<int32_t> tokens = all_tokens(file, *tokenizer, progress, changes);
  if (by_lines) {
    return std::make_unique<LineSource>(
        LineSource::Parts{file.name(), std::move(tokenizer), std::move(tokens), config.parts, config.seed, changes},
        config.seq_len);
  }
  const SplitSizes sizes =
      split_by_fractions(static_cast<int64_t>(tokens.size()), config.parts.val_fraction, config.parts.test_fraction);
  return std::make_unique<PositionSource>(
      PositionSource::Parts{.name = file.name(),
                            .tokenizer = std::move(tokenizer),
                            .tokens = std::make_unique<TokenVector>(std::move(tokens)),
                            .sizes = sizes,
                            .seed = config.seed,
                            .text_changes = changes},
      config.seq_len);
}

}  // namespace heed::data
