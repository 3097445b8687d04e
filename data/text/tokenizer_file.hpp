// Reads a byte-level BPE tokenizer from the files of Hugging Face: tokenizer.json, or GPT-2's classic pair vocab.json
// and merges.txt. It must be made of what GPT-2, Llama 3 and Qwen have:
//
//   normalizer      none. Qwen's files have NFC, which is refused: a text that it changes would not come back
//   pre_tokenizer   Split (by a regular expression, Isolated), any number of times, then ByteLevel without a prefix
//                   space, with or without the expression of GPT-2
//   model           BPE without dropout, prefix, suffix, fuse_unk and byte_fallback; ignore_merges may be set
//   decoder         ByteLevel
//
// The post-processor, which adds the tokens of a template, is left out: heed adds no tokens to a text. All functions
// throw DataError, one line with the file, what it has and what is allowed.
#pragma once

#include <string>
#include <string_view>

#include "data/text/byte_level_bpe.hpp"

namespace heed::data {

inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{64} << 20;

// The expression that GPT-2 splits a text by.
extern const char* const kGpt2Pattern;

// name: the file in error messages. The token of an end of a text is the added token "<|endoftext|>",
// "<|end_of_text|>" or "</s>".
ByteLevelBpeParts parse_tokenizer_json(std::string_view text, const std::string& name);

// vocab.json and the text of merges.txt. A token of several bytes that no merge makes is an added one.
ByteLevelBpeParts parse_vocab_and_merges(std::string_view vocab, const std::string& vocab_name, std::string_view merges,
                                         const std::string& merges_name);

// path: tokenizer.json, a vocab.json with a merges.txt next to it, or a folder with either, of which tokenizer.json
// comes first.
ByteLevelBpeParts read_tokenizer_file(const std::string& path);

}  // namespace heed::data
