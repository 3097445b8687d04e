#include "train/commands/generate_output.hpp"

#include <fmt/format.h>

#include <utility>

#include "train/output/output.hpp"

namespace heed::train {
namespace {

// The line before a text, if there are several and each may have several lines.
std::string title(size_t prompt, size_t num_prompts, int64_t sample, int64_t num_samples) {
  std::string what;
  if (num_prompts > 1) what = fmt::format("prompt {} of {}", prompt + 1, num_prompts);
  if (num_samples > 1) {
    what += fmt::format("{}sample {} of {}", what.empty() ? "" : ", ", sample + 1, num_samples);
  }
  return what.empty() ? what : fmt::format("──── {} ────\n", what);
}

}  // namespace

SequenceText::SequenceText(const data::Tokenizer* tokenizer, const std::vector<std::string>& stop_texts)
    : decoder_(tokenizer == nullptr ? nullptr : std::make_unique<data::StreamDecoder>(*tokenizer)), stop_(stop_texts) {}

std::string SequenceText::text_of(int32_t token) {
  if (decoder_ != nullptr) return decoder_->push(token);
  return (std::exchange(is_first_, false) ? "" : " ") + std::to_string(token);
}

std::string SequenceText::add_prompt(const Prompt& prompt) {
  std::string text;
  for (auto id = prompt.tokens.end() - prompt.num_given; id != prompt.tokens.end(); ++id) text += text_of(*id);
  return text;
}

std::string SequenceText::push(int32_t token) { return stop_.push(text_of(token)); }

std::string SequenceText::finish() {
  std::string text = decoder_ == nullptr ? "" : stop_.push(decoder_->finish());
  return text + stop_.finish();
}

GenerateOutput::GenerateOutput(const data::Tokenizer* tokenizer, const std::vector<Prompt>& prompts,
                               const GenerateOptions& options, int64_t sample) {
  const bool has_lines = tokenizer != nullptr && !tokenizer->end_token();
  for (size_t i = 0; i < prompts.size(); ++i) {
    Text& text = texts_.emplace_back(Text{.sequence = {tokenizer, options.stop_texts}, .waiting = {}});
    if (has_lines) text.waiting = title(i, prompts.size(), sample, options.num_samples);
    text.waiting += text.sequence.add_prompt(prompts[i]);
  }
  write_output(std::exchange(texts_.front().waiting, {}));
}

void GenerateOutput::write(size_t prompt, const std::string& text) {
  prompt == printed_ ? write_output(text) : void(texts_[prompt].waiting += text);
}

bool GenerateOutput::push(size_t prompt, int32_t token) {
  SequenceText& sequence = texts_[prompt].sequence;
  write(prompt, sequence.push(token));
  return !sequence.stopped();
}

void GenerateOutput::end(size_t prompt) {
  write(prompt, texts_[prompt].sequence.finish() + "\n");
  texts_[prompt].ended = true;
  while (printed_ < texts_.size() && texts_[printed_].ended) {
    if (++printed_ < texts_.size()) write_output(std::exchange(texts_[printed_].waiting, {}));
  }
}

}  // namespace heed::train
