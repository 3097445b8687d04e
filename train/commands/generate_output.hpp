// Prints the texts of a batch in the order of the prompts: the first one as it is generated, the others once those
// before have ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/text/tokenizer.hpp"
#include "train/commands/generate.hpp"
#include "train/commands/stop_text.hpp"

namespace heed::train {

// The text of one sequence: the prompt, then what is generated, up to a stop text.
class SequenceText {
 public:
  // tokenizer: nullptr for token ids separated by spaces.
  SequenceText(const data::Tokenizer* tokenizer, const std::vector<std::string>& stop_texts);

  // Each returns the text that can be printed now. The prompt also passes through the decoder: a character may begin in
  // the prompt and end in the generated tokens. Stop texts are looked for in what is generated only.
  std::string add_prompt(const Prompt& prompt);
  std::string push(int32_t token);
  std::string finish();
  bool stopped() const { return stop_.stopped(); }

 private:
  std::string text_of(int32_t token);

  std::unique_ptr<data::StreamDecoder> decoder_;
  StopText stop_;
  bool is_first_ = true;
};

class GenerateOutput {
 public:
  // Prints the first prompt. sample: its number, from 0.
  GenerateOutput(const data::Tokenizer* tokenizer, const std::vector<Prompt>& prompts, const GenerateOptions& options,
                 int64_t sample);

  // The functions of a TokenReceiver.
  bool push(size_t prompt, int32_t token);
  void end(size_t prompt);

 private:
  struct Text {
    SequenceText sequence;
    std::string waiting;  // text that is printed once the texts before have ended
    bool ended = false;
  };
  void write(size_t prompt, const std::string& text);

  std::vector<Text> texts_;
  size_t printed_ = 0;  // the text that is printed as it is generated
};

}  // namespace heed::train
