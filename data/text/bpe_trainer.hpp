// Trains a bpe vocabulary from word counts, with SentencePiece if the build has it (HEED_HAVE_SENTENCEPIECE).
// SentencePiece reads each byte as a separate character, so no text has a special meaning.
// Kudo and Richardson 2018, "SentencePiece" (arXiv 1808.06226).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heed::data {

bool can_train_bpe();

// Throws ConfigError with the missing packages if the build cannot train.
void require_bpe_training();

// The different words of a text, split by word_length(), with their counts.
//
// The cost of training grows with the different words (measured: 100 to 170 bytes and up to 20 microseconds for each of
// their bytes). Two limits therefore apply: kMaxLongBytes for words over 32 bytes (as in texts without spaces),
// kMaxShortBytes for all others. Above a limit, only every second, fourth, eighth … of these words is kept, selected by
// its checksum: evenly distributed over the text, and deterministic. The words that are kept have their full counts.
// Encoding is not affected: it works for every text.
class WordCounts {
 public:
  static constexpr int64_t kLongWordBytes = 32, kMaxLongBytes = int64_t{1} << 20, kMaxShortBytes = int64_t{8} << 20;

  // Counts the words of text. line_feeds_are_tokens: line feeds are not part of the words.
  void add(std::string_view text, bool line_feeds_are_tokens);

  const std::unordered_map<std::string, int64_t>& words() const { return words_; }

 private:
  // Sampling state: shares_[0] for words up to kLongWordBytes bytes, shares_[1] for longer ones.
  struct Share {
    int64_t bytes = 0;
    uint64_t divisor = 1;  // only words whose checksum is a multiple of it are kept
  };

  static bool is_long(std::string_view word) { return static_cast<int64_t>(word.size()) > kLongWordBytes; }
  void add_word(std::string_view word);
  void halve(bool long_words);

  std::unordered_map<std::string, int64_t> words_;
  Share shares_[2];
};

// Returns at most num_merges merged tokens of two bytes or more, in the order of merging; fewer if the words allow no
// more. The result is deterministic. A token stays within a word and has at most 32 bytes. ASCII letters, digits and
// punctuation do not mix within a token; bytes above 127 count as letters.
// Throws DataError if SentencePiece fails, and what require_bpe_training() throws.
std::vector<std::string> train_bpe(const WordCounts& counts, int64_t num_merges);

}  // namespace heed::data
