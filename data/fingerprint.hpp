// Checksum of all tokens of a text, and the fingerprint that is made of it.
//
// The checksum is the same from memory and from a token file: XXH64 over the XXH64 values (u64) of all blocks of 65536
// tokens (int32; the last block may be shorter). A token file stores these values, so its checksum needs no reading of
// the tokens.
//
// The fingerprint is a short text that identifies the data of a run, down to the last token:
//
//   "1115394 tokens, split 1003854/111540/0, XXH64 of all tokens 1a2b3c4d5e6f7081, of the tokenizer 0f1e2d3c4b5a6978"
//
// It is computed once, when a dataset is constructed, so that a checkpoint describes the data at the start of its run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/splits.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

inline constexpr int64_t kTokensPerBlock = 65536;

// Reads tokens.size() tokens from position `first` on.
using ReadTokens = std::function<void(int64_t first, std::span<int32_t> tokens)>;

uint64_t checksum_of_block(std::span<const int32_t> tokens);
uint64_t checksum_of_blocks(std::span<const uint64_t> block_checksums);
uint64_t checksum_of_tokens(int64_t num_tokens, const ReadTokens& read);

class Fingerprint {
 public:
  struct Parts {
    int64_t num_tokens = 0;
    uint64_t token_checksum = 0;  // checksum_of_tokens()
    SplitSizes sizes;
    std::string split_unit;  // unit and order of the sizes, unless they are tokens by position
  };

  Fingerprint(const Parts& parts, const Tokenizer& tokenizer);

  const std::string& text() const { return text_; }

  // Whether `stored` is the fingerprint of these data, in this format or in that of earlier versions, which is computed
  // from the tokens for the comparison: "1115394 tokens, split 1003854/111540/0, checksum 1a2b3c4d5e6f7081". The old
  // checksum covers 64 evenly spaced excerpts of 4096 tokens, so it misses changes between the excerpts of a long text.
  // `read` reads the tokens.
  bool matches(const std::string& stored, const ReadTokens& read) const;

 private:
  std::string sampled_text(const ReadTokens& read) const;

  int64_t num_tokens_;
  std::string sizes_;  // "1115394 tokens, split 1003854/111540/0"
  std::string text_;
};

}  // namespace heed::data
