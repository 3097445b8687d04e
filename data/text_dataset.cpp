#include "data/text_dataset.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/line_dataset.hpp"
#include "data/position_dataset.hpp"
#include "data/text/text_encoding.hpp"
#include "data/token_file.hpp"

namespace heed::data {

namespace {

constexpr const char* kTokenFile =
    "make a token file (heed data prepare) and train from it (data.source = \"tokens\"), or take a shorter text";
constexpr const char* kNoTokenFile =
    "take a shorter text, or one cut by position (data.split), which can be a token file (heed data prepare)";

// Token buffer for a text. The first chunk determines the number of tokens per byte; if the text is uniform, one
// allocation is enough. The number of tokens never exceeds the number of bytes.
class TokenMemory {
 public:
  TokenMemory(const TextFile& file, bool by_lines) : file_(file), by_lines_(by_lines) {}

  void append(std::span<const int32_t> piece, int64_t bytes) {
    bytes_done_ += bytes;
    const size_t size = tokens_.size() + piece.size();
    if (size > tokens_.capacity()) reserve(size);
    tokens_.insert(tokens_.end(), piece.begin(), piece.end());
  }

  std::vector<int32_t> take() { return std::move(tokens_); }

 private:
  void reserve(size_t at_least) {
    const double per_byte = static_cast<double>(at_least) / static_cast<double>(bytes_done_);
    const double all = per_byte * static_cast<double>(file_.size()), margin = all / 16;
    const auto count =
        std::max(static_cast<int64_t>(at_least), std::min(static_cast<int64_t>(all + margin), file_.size()));
    constexpr int64_t kEnds = 2;  // end tokens that LineDataset adds
    const auto bytes = (count + kEnds) * static_cast<int64_t>(sizeof(int32_t));
    with_memory({.bytes = bytes,
                 .what = fmt::format("{} as tokens ({} of text)", file_.name(), human_bytes(file_.size())),
                 .advice = by_lines_ ? kNoTokenFile : kTokenFile},
                [&] { tokens_.reserve(static_cast<size_t>(count + kEnds)); });
  }

  const TextFile& file_;
  bool by_lines_;
  int64_t bytes_done_ = 0;
  std::vector<int32_t> tokens_;
};

std::vector<int32_t> all_tokens(const TextFile& file, const Tokenizer& tokenizer, bool by_lines,
                                const Progress& progress, std::string& changes) {
  TokenMemory memory(file, by_lines);
  changes = encode_file(
      file, tokenizer,
      [&](std::span<const int32_t> piece, std::string_view text) {
        memory.append(piece, static_cast<int64_t>(text.size()));
      },
      progress);
  return memory.take();
}

std::unique_ptr<Dataset> read_source(const TextFile& file, const TextConfig& config, const Progress& progress) {
  const bool by_lines = config.split == TextSplit::lines;
  std::shared_ptr<const Tokenizer> tokenizer = config.known_tokenizer;
  if (tokenizer == nullptr) {
    tokenizer = make_tokenizer(file, {config.tokenizer, config.vocab_size, by_lines, config.tokenizer_file}, progress);
  }
  std::string changes;
  std::vector<int32_t> tokens = all_tokens(file, *tokenizer, by_lines, progress, changes);
  if (by_lines) {
    const int64_t lines = std::count(tokens.begin(), tokens.end(), *tokenizer->end_token());
    return with_memory({.bytes = lines * LineDataset::kBytesPerLine,
                        .what = fmt::format("{} as {} lines", file.name(), lines),
                        .advice = kNoTokenFile},
                       [&]() -> std::unique_ptr<Dataset> {
                         return std::make_unique<LineDataset>(
                             LineDataset::Parts{file.name(), std::move(tokenizer), std::move(tokens), config.parts,
                                                config.seed, config.split_seed, changes},
                             config.seq_len);
                       });
  }
  const SplitSizes sizes =
      split_by_fractions(static_cast<int64_t>(tokens.size()), config.parts.val_fraction, config.parts.test_fraction);
  return std::make_unique<PositionDataset>(
      PositionDataset::Parts{.name = file.name(),
                             .tokenizer = std::move(tokenizer),
                             .tokens = std::make_unique<TokenVector>(std::move(tokens)),
                             .sizes = sizes,
                             .seed = config.seed,
                             .text_changes = changes},
      config.seq_len);
}

}  // namespace

std::unique_ptr<Dataset> make_text_dataset(const TextConfig& config, const Progress& progress) {
  const bool by_lines = config.split == TextSplit::lines;
  require<ConfigError>(by_lines || (!config.parts.val_lines && !config.parts.test_lines),
                       "data.val_lines and data.test_lines are only for data.split = \"lines\": take data.val_fraction "
                       "and data.test_fraction");
  const TextFile file(config.path);
  if (!by_lines) {
    // No tokenizer can be built from an empty file, so it is rejected first.
    const SplitSizes none = split_by_fractions(0, config.parts.val_fraction, config.parts.test_fraction);
    if (file.size() == 0) require_sequences(file.name(), none, config.seq_len);
  }
  // Reports lack of memory for everything except tokens and lines, which have their own messages.
  return with_memory({.bytes = 0, .what = "reading " + file.name(), .advice = by_lines ? kNoTokenFile : kTokenFile},
                     [&] { return read_source(file, config, progress); });
}

std::unique_ptr<Dataset> make_token_dataset(const TokenDatasetConfig& config) {
  auto file = std::make_unique<TokenFile>(config.path);
  PositionDataset::Parts parts{file->name(),  file->tokenizer(), nullptr,
                               file->sizes(), config.seed,       "the fractions given to heed data prepare"};
  if (config.whole) parts.sizes = {.train = file->size()};
  parts.text_changes = printable(file->provenance().source_changes);
  parts.tokens = std::move(file);
  return std::make_unique<PositionDataset>(std::move(parts), config.seq_len);
}

}  // namespace heed::data
