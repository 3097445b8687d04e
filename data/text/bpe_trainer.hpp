// Learns the pieces of a bpe tokenizer from words and their counts. The learning is SentencePiece's, where this build
// has it (HEED_HAVE_SENTENCEPIECE); it sees each byte as a character of its own, so nothing in a text is special to it.
// Kudo and Richardson 2018, "SentencePiece" (arXiv 1808.06226).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heed::data {

bool can_train_bpe();

// Throws ConfigError, naming the packages that are missing, if the build cannot train.
void require_bpe_training();

// Words and how often each occurs, cut as word_length() cuts them.
//
// Learning takes time and memory for each different word (measured: 100 to 170 bytes and up to 20 microseconds for each
// of its bytes). So where different words exceed kMaxLongBytes (words over 32 bytes, as in texts without blanks) or
// kMaxShortBytes, only every second, fourth, eighth … of them is kept, chosen by its checksum: evenly over the text,
// and always the same. What is kept counts in full. Encoding is not concerned: it takes every text.
class WordCounts {
 public:
  static constexpr int64_t kLongWordBytes = 32, kMaxLongBytes = int64_t{1} << 20, kMaxShortBytes = int64_t{8} << 20;

  // Counts the words of text. A text of lines has no line feeds in its words.
  void add(std::string_view text, bool line_feeds_are_tokens);

  const std::unordered_map<std::string, int64_t>& words() const { return words_; }

 private:
  // Of the words up to kLongWordBytes, and of the longer ones.
  struct Share {
    int64_t bytes = 0;
    uint64_t divisor = 1;  // those are kept whose checksum it divides
  };

  static bool is_long(std::string_view word) { return static_cast<int64_t>(word.size()) > kLongWordBytes; }
  void add_word(std::string_view word);
  void halve(bool long_words);

  std::unordered_map<std::string, int64_t> words_;
  Share shares_[2];
};

// At most num_merges pieces of two bytes or more, in the order of merging; fewer if the words yield no more. The same
// words give the same pieces. A piece stays inside a word and has at most 32 bytes. Letters, digits and punctuation of
// ASCII do not mix; bytes above 127 count as letters.
// Throws DataError where SentencePiece fails, and what require_bpe_training() throws.
std::vector<std::string> train_bpe(const WordCounts& counts, int64_t num_merges);

}  // namespace heed::data
