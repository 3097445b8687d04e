// Text from the command line, as tokens of a model: the prompts of generate, and the texts of eval and inspect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/run/snapshot.hpp"

namespace heed::train {

// The bytes of a file; "-": stdin. option: the name of the option in messages, "generate: --prompt-file". Throws
// DataError if the file cannot be read, or is too large to be written by a person.
std::string read_text_argument(const std::string& path, const std::string& option);

// The tokens of text; token ids separated by spaces if the model has no tokenizer. Throws DataError for a character
// without a token, with the character and its position, unless skip_unknown leaves it out; and for an id outside the
// vocabulary. what: the text in messages, "inspect: --text".
std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text, bool skip_unknown,
                                 const std::string& what);

struct Prompt {
  std::vector<int32_t> tokens;
  int64_t num_given = 0;  // the last tokens, which encode the text; printed before what is generated
};

// If lines are sequences, the prompt begins with the end token. If it is empty otherwise, it is the start token
// (data/text/tokenizer.hpp), or id 0 without a tokenizer. Neither is printed. Throws the errors of encode_text().
Prompt make_prompt(const LoadedModel& loaded, const std::string& text, bool skip_unknown,
                   const std::string& what = "generate: the prompt");

}  // namespace heed::train
