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
class WordCounts {
 public:
  // Counts the words of text. A text of lines has no line feeds in its words.
  void add(std::string_view text, bool line_feeds_are_tokens);

  const std::unordered_map<std::string, int64_t>& words() const { return words_; }

 private:
  std::unordered_map<std::string, int64_t> words_;
};

// At most num_merges pieces of two bytes or more, in the order of merging; fewer if the words yield no more. The same
// words give the same pieces. A piece stays inside a word and has at most 32 bytes. Letters, digits and punctuation of
// ASCII do not mix; bytes above 127 count as letters.
// Throws DataError where SentencePiece fails, and what require_bpe_training() throws.
std::vector<std::string> train_bpe(const WordCounts& counts, int64_t num_merges);

}  // namespace heed::data
