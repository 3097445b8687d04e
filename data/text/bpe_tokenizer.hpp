// Byte-pair encoding over bytes: ids 0 … 255 are the bytes, then pieces in the order in which training merged them, the
// end token last. So every text has tokens, valid UTF-8 or not, and decoding gives it back byte for byte.
//
// Text is cut into words, and no token crosses a word: a word begins at every space and after every line feed, and
// after kMaxWordBytes bytes where there are none. Inside a word the two neighbours whose join is the earliest piece are
// merged, the leftmost first, until no join is a piece. Sennrich, Haddow, Birch 2016 (arXiv 1508.07909).
//
// Pieces are learned by data/text/bpe_trainer.hpp; using them needs nothing but this table.
#pragma once

#include <unordered_map>

#include "data/text/tokenizer.hpp"

namespace heed::data {

class BpeTokenizer final : public Tokenizer {
 public:
  static constexpr int64_t kMaxWordBytes = 256;

  // merged: pieces of 2 … kMaxPieceBytes bytes, all different, each the join of two earlier ones (or bytes). Throws
  // ValueError otherwise.
  BpeTokenizer(std::vector<std::string> merged, bool has_end_token);

  std::vector<int32_t> encode(std::string_view text, Unknown = Unknown::refuse) const override;
  int64_t safe_cut(std::string_view text) const override;

  // For each merged piece whether encoding these words ever makes it, be it on the way to a longer one.
  std::vector<bool> pieces_made(const std::vector<std::string_view>& words) const;

 private:
  static uint64_t pair_key(int32_t left, int32_t right);
  int32_t join(int32_t left, int32_t right) const;  // kNoPiece if the two make no piece
  // use_piece(id): called for each piece that is made on the way.
  template <class UsePiece>
  void encode_word(std::string_view word, std::vector<int32_t>& ids, UsePiece use_piece) const;

  std::unordered_map<uint64_t, int32_t> joins_;
};

// Length of the word that text begins with; text must not be empty.
int64_t word_length(std::string_view text);

// Whether the first `length` bytes of text are a whole word whatever comes after text.
bool word_is_whole(std::string_view text, int64_t length);

}  // namespace heed::data
