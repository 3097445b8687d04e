#include "data/text/text_encoding.hpp"

#include <algorithm>
#include <unordered_set>

#include "autograd/core/check.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "data/text/bpe_trainer.hpp"
#include "data/text/byte_level_bpe.hpp"
#include "data/text/char_tokenizer.hpp"
#include "data/text/tokenizer.hpp"
#include "data/text/tokenizer_file.hpp"

namespace heed::data {

namespace {

void report(const Progress& progress, const char* phase, int64_t done, int64_t total) {
  if (progress) progress(phase, done, total);
}

std::unique_ptr<Tokenizer> make_char_tokenizer(const TextFile& file, bool has_end_token, const Progress& progress) {
  const auto name_file = [&](const auto& look_at_text) {
    try {
      return look_at_text();
    } catch (const DataError& error) {
      throw DataError(
          fmt::format("{}: {}, and data.tokenizer = \"char\" needs UTF-8: convert it, or take \"byte\" or \"bpe\"",
                      file.name(), error.what()));
    }
  };
  const auto characters_in = [&](TextForm form) {
    CharacterSet characters;
    for_each_chunk(file, form, [&](const TextChunk& piece) {
      characters.add(piece.text);
      report(progress, "reading", piece.end, file.size());
      return static_cast<int64_t>(piece.text.size());
    });
    return characters.finish();
  };
  std::vector<char32_t> code_points = name_file([&] {
    try {
      return characters_in(text_form(TokenizerKind::character, has_end_token));
    } catch (const DataError&) {
      characters_in(TextForm::bytes);  // throws, too, with the offset in the bytes of the file
      throw;
    }
  });
  if (has_end_token) std::erase(code_points, U'\n');
  require<DataError>(has_end_token || !code_points.empty(), "{} is empty, it has no characters", file.name());
  return std::make_unique<CharTokenizer>(std::move(code_points), has_end_token);
}

// text without a first and a last word that may be incomplete.
std::string_view whole_words(std::string_view text, bool begins_file, bool ends_file) {
  const auto word_begin = [&](size_t place) {
    return place == std::string_view::npos ? place : place + (text[place] == '\n' ? 1 : 0);
  };
  const size_t first = begins_file ? 0 : word_begin(text.find_first_of(" \n"));
  const size_t last = ends_file ? text.size() : word_begin(text.find_last_of(" \n"));
  const bool has_words = first != std::string_view::npos && last != std::string_view::npos;
  return has_words ? text.substr(first, last - first) : text;
}

WordCounts count_words(const TextFile& file, bool has_end_token, const Progress& progress) {
  constexpr int64_t kNumBlocks = 64, kBlockBytes = kBpeSampleBytes / kNumBlocks;
  const bool whole = file.size() <= kBpeSampleBytes;
  const int64_t num_blocks = whole ? 1 : kNumBlocks, stride = (file.size() - kBlockBytes) / (kNumBlocks - 1);
  WordCounts counts;
  for (int64_t block = 0; block < num_blocks; ++block) {
    std::string text(whole ? file.size() : kBlockBytes, '\0');
    const int64_t offset = block * stride, end = offset + static_cast<int64_t>(text.size());
    file.read(offset, text);
    std::string normal;
    TextNormalizer(text_form(TokenizerKind::bpe, has_end_token), offset == 0).add(text, true, normal);
    counts.add(whole_words(normal, offset == 0, end == file.size()), has_end_token);
    report(progress, "reading", block + 1 == num_blocks ? file.size() : end, file.size());
  }
  return counts;
}

bool is_join(std::string_view piece, const std::unordered_set<std::string_view>& known) {
  const auto is_piece = [&](std::string_view part) { return part.size() == 1 || known.contains(part); };
  for (size_t cut = 1; cut < piece.size(); ++cut) {
    if (is_piece(piece.substr(0, cut)) && is_piece(piece.substr(cut))) return true;
  }
  return false;
}

// Training yields merges that encoding never performs, because other merges precede them. If the vocabulary ends with
// such a merge, all of these are replaced by further merges, as far as there are any.
std::vector<std::string> useful_merges(const WordCounts& counts, int64_t wanted) {
  std::vector<std::string_view> words;
  for (const auto& [word, count] : counts.words()) words.emplace_back(word);
  std::vector<std::string> merged = train_bpe(counts, wanted);
  std::vector<bool> made = BpeTokenizer(merged, false).pieces_made(words);
  const bool is_full = static_cast<int64_t>(merged.size()) == wanted;
  if (wanted == 0 || (is_full && made.back())) return merged;
  if (is_full) {
    merged = train_bpe(counts, wanted + std::count(made.begin(), made.end(), false));
    made = BpeTokenizer(merged, false).pieces_made(words);
  }
  std::vector<std::string> useful;
  std::unordered_set<std::string_view> known;
  for (size_t i = 0; i < merged.size() && static_cast<int64_t>(useful.size()) < wanted; ++i) {
    if (!made[i] || !is_join(merged[i], known)) continue;
    useful.push_back(merged[i]);
    known.insert(merged[i]);
  }
  return useful;
}

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const TextFile& file, const TokenizerConfig& config,
                                              const Progress& progress) {
  require_bpe_training();
  const int64_t fixed = 256 + (config.has_end_token ? 1 : 0);
  const char* fixed_names = config.has_end_token ? "256 bytes and the end of line" : "256 bytes";
  require<ConfigError>(fixed <= config.vocab_size && config.vocab_size <= Tokenizer::kMaxVocabSize,
                       "data.vocab_size = {}, data.tokenizer = \"bpe\" takes {} ({}) to {}", config.vocab_size, fixed,
                       fixed_names, Tokenizer::kMaxVocabSize);
  const WordCounts counts = count_words(file, config.has_end_token, progress);
  const int64_t wanted = config.vocab_size - fixed;
  report(progress, "learning the vocabulary", 0, file.size());
  std::vector<std::string> merged = useful_merges(counts, wanted);
  report(progress, "learning the vocabulary", file.size(), file.size());
  const auto found = static_cast<int64_t>(merged.size());
  require<ConfigError>(
      found == wanted,
      "data.vocab_size = {}, but {} yields only {} entries ({} and {} merges): lower data.vocab_size to "
      "{} or less, or take a longer text",
      config.vocab_size, file.name(), fixed + found, fixed_names, found, fixed + found);
  return std::make_unique<BpeTokenizer>(std::move(merged), config.has_end_token);
}

std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerConfig& config) {
  require<ConfigError>(
      !config.tokenizer_file.empty(),
      "data.tokenizer_file is empty, it must name a tokenizer.json, a vocab.json or a folder of these");
  ByteLevelBpeParts parts = read_tokenizer_file(config.tokenizer_file);
  try {
    return std::make_unique<ByteLevelBpe>(std::move(parts), config.has_end_token);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", quoted_path(config.tokenizer_file), error.what()));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const TextFile& file, const TokenizerConfig& config,
                                          const Progress& progress) {
  switch (config.kind) {
    case TokenizerKind::character:
      return make_char_tokenizer(file, config.has_end_token, progress);
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>(config.has_end_token);
    case TokenizerKind::bpe:
      return make_bpe_tokenizer(file, config, progress);
    case TokenizerKind::file:
      return load_tokenizer(config);
  }
  throw ValueError("make_tokenizer: no such kind");
}

std::string encode_file(const TextFile& file, const Tokenizer& tokenizer, const UseTokens& use,
                        const Progress& progress) {
  const TextForm form = text_form(tokenizer.kind(), tokenizer.end_token().has_value());
  return for_each_chunk(file, form, [&](const TextChunk& piece) {
    const std::string_view ready = piece.is_last ? piece.text : piece.text.substr(0, tokenizer.safe_cut(piece.text));
    std::vector<int32_t> tokens;
    try {
      tokens = tokenizer.encode(ready);
    } catch (const DataError& error) {
      file.require_unchanged();
      throw DataError(fmt::format("{}: {}", file.name(), error.what()));
    }
    use(tokens, piece.file);
    report(progress, "encoding", piece.end, file.size());
    return static_cast<int64_t>(ready.size());
  });
}

}  // namespace heed::data
