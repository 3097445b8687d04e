// Byte-level byte-pair encoding as GPT-2, Llama 3 and Qwen have it: a vocabulary with any ids, merges in the order of
// their rank, and regular expressions that split the text into words. data/text/tokenizer_file.hpp reads it from the
// files of Hugging Face.
//
// The text is split by the first expression; each part by the next one, as a separate text. Bytes that are not UTF-8
// are words, one for each longest run of them. Within a word, the adjacent pair with the lowest rank is merged,
// leftmost first, until no pair has a merge; with whole_words, a word that is a token is that token. No token crosses a
// word.
//
// Added tokens ("<|endoftext|>") are ids that encode() never returns: a text that contains their name is encoded like
// any other text. They decode to their name.
//
// Radford et al. 2019 (GPT-2); Sennrich, Haddow, Birch 2016 (arXiv 1508.07909).
#pragma once

#include <unordered_map>
#include <utility>

#include "data/text/tokenizer.hpp"
#include "data/text/word_pattern.hpp"

namespace heed::data {

struct ByteLevelBpeParts {
  struct AddedToken {
    int32_t id = 0;
    bool special = true;  // only kept: whether decoders of other programs leave it out
    bool operator==(const AddedToken&) const = default;
  };
  std::vector<std::string> pieces;                  // the bytes of each id
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank; the join of the two is a piece, too
  std::vector<AddedToken> added;                    // by id
  std::vector<std::string> patterns;
  bool whole_words = false;  // "ignore_merges"
  int32_t end_of_text = -1;  // the added token that ends a document; -1: none

  bool operator==(const ByteLevelBpeParts&) const = default;
};

class ByteLevelBpe final : public Tokenizer {
 public:
  static constexpr int64_t kMaxMerges = int64_t{1} << 21, kMaxPatterns = 8;

  // Throws DataError, naming the id, the rank or the expression, unless every byte and every join of a merge is a piece
  // that is not an added token, these pieces are all different, no merge is there twice, and all limits hold.
  ByteLevelBpe(ByteLevelBpeParts parts, bool has_end_token);

  std::vector<int32_t> encode(std::string_view text, Unknown = Unknown::refuse) const override;

  // Words have no longest length here, so neither has what follows the cut: it is one word, or a few.
  int64_t safe_cut(std::string_view text) const override;

  int32_t start_token() const override;

  // What it was made of; pieces without the end token.
  ByteLevelBpeParts parts() const;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t id = 0;
  };

  std::string serialized_rules() const override;
  std::vector<int32_t> ids_of_word(std::string_view word) const;
  void index_pieces(const std::vector<bool>& is_added);
  void index_merges();

  std::vector<std::pair<int32_t, int32_t>> merges_;
  std::vector<ByteLevelBpeParts::AddedToken> added_;
  std::vector<WordPattern> patterns_;
  bool whole_words_;
  int32_t end_of_text_;
  std::unordered_map<std::string_view, int32_t> ids_;  // of pieces that are not added; into pieces()
  std::unordered_map<uint64_t, Merge> joins_;
  std::vector<int32_t> byte_ids_;
};

}  // namespace heed::data
