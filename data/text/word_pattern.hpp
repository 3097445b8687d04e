// A regular expression that splits a text into words, as the pre-tokenizers of Hugging Face's tokenizers and of
// tiktoken use it: each match is a word, and so is each stretch between two matches ("isolated").
//
// Expressions are written for other engines (Oniguruma, the regex crates of Rust). Only syntax that means the same in
// all of them is accepted: literals, classes, \s \S \d \D \p{…} \P{…} \r \n \t \f and escaped punctuation, the groups
// (…), (?:…), (?i:…), (?=…) and (?!…), alternatives and quantifiers. White space is Unicode's White_Space, which is
// not what PCRE2 makes of \s (U+180E). The other properties are those of the installed PCRE2: letters that Unicode has
// added since then are no letters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heed::data {

class WordPattern {
 public:
  static constexpr int64_t kMaxBytes = 4096;

  // Throws DataError, naming the part, if the expression is longer, has other syntax, or matches the empty text.
  explicit WordPattern(std::string source);
  ~WordPattern();
  WordPattern(WordPattern&&) noexcept;
  WordPattern& operator=(WordPattern&&) noexcept;

  const std::string& source() const { return source_; }

  // Finds matches in one text, which must be UTF-8 and stay as it is.
  class Search {
   public:
    Search(const WordPattern& pattern, std::string_view text);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    struct Match {
      enum class Status { found, none, partial } status = Status::none;
      int64_t begin = 0, end = 0;
    };
    // The first match that begins at `from` or later. Throws DataError if it takes too many steps.
    Match next(int64_t from) { return match(from, false); }
    // The same for the beginning of a longer text: `partial` if the text that follows could change the match.
    Match next_of_prefix(int64_t from) { return match(from, true); }

   private:
    struct Memory;
    Match match(int64_t from, bool is_prefix);

    const WordPattern& pattern_;
    std::string_view text_;
    std::unique_ptr<Memory> memory_;
  };

 private:
  struct Code;
  std::string source_;
  std::unique_ptr<Code> code_;
};

}  // namespace heed::data
