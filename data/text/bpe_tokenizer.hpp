// Byte-level byte-pair encoding. Ids 0 to 255 are the bytes; the merged tokens follow in the order in which training
// merged them; the end token is last. Every text can therefore be encoded, valid UTF-8 or not, and decoding restores it
// byte for byte.
//
// Pre-tokenization splits the text into words, and no token crosses a word boundary. A word begins at every space and
// after every line feed; longer words are split after kMaxWordBytes bytes. Within a word, the adjacent pair with the
// earliest merge is merged, leftmost first, until no pair has a merge. Sennrich, Haddow, Birch 2016 (arXiv 1508.07909).
//
// data/text/bpe_trainer.hpp learns the merges; encoding and decoding need only the vocabulary.
#pragma once

#include <unordered_map>

#include "data/text/tokenizer.hpp"

namespace heed::data {

class BpeTokenizer final : public Tokenizer {
 public:
  static constexpr int64_t kMaxWordBytes = 256;

  // merged: the merged tokens of 2 to kMaxPieceBytes bytes, all different, each the concatenation of two earlier
  // tokens. Throws ValueError otherwise.
  BpeTokenizer(std::vector<std::string> merged, bool has_end_token);

  std::vector<int32_t> encode(std::string_view text, Unknown = Unknown::refuse) const override;
  int64_t safe_cut(std::string_view text) const override;

  // For each merged token, whether encoding these words ever creates it, even as an intermediate result.
  std::vector<bool> pieces_made(const std::vector<std::string_view>& words) const;

 private:
  static uint64_t pair_key(int32_t left, int32_t right);
  int32_t join(int32_t left, int32_t right) const;  // kNoPiece if the pair has no merge
  // use_piece(id) is called for each token that a merge creates.
  template <class UsePiece>
  void encode_word(std::string_view word, std::vector<int32_t>& ids, UsePiece use_piece) const;

  std::unordered_map<uint64_t, int32_t> joins_;
};

// Length in bytes of the first word of text, which must not be empty.
int64_t word_length(std::string_view text);

// Whether the first `length` bytes of text are a complete word, no matter what follows text.
bool word_is_whole(std::string_view text, int64_t length);

}  // namespace heed::data
