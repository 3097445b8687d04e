#include "data/text/bpe_trainer.hpp"

#include <algorithm>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"
#include "data/io/utf8.hpp"
#include "data/text/bpe_tokenizer.hpp"

#ifdef HEED_HAVE_SENTENCEPIECE
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#endif

namespace heed::data {

void WordCounts::add(std::string_view text, bool line_feeds_are_tokens) {
  while (!text.empty()) {
    std::string_view word = text.substr(0, word_length(text));
    text.remove_prefix(word.size());
    if (line_feeds_are_tokens && word.back() == '\n') word.remove_suffix(1);
    if (!word.empty()) add_word(word);
  }
}

void WordCounts::add_word(std::string_view word) {
  Share& share = shares_[is_long(word) ? 1 : 0];
  if (share.divisor > 1 && checksum(word) % share.divisor != 0) return;
  const auto [entry, is_new] = words_.try_emplace(std::string(word));
  ++entry->second;
  if (!is_new) return;
  share.bytes += static_cast<int64_t>(word.size());
  while (share.bytes > (is_long(word) ? kMaxLongBytes : kMaxShortBytes)) halve(is_long(word));
}

void WordCounts::halve(bool long_words) {
  Share& share = shares_[long_words ? 1 : 0];
  share.divisor *= 2;
  std::erase_if(words_, [&](const auto& entry) {
    const std::string& word = entry.first;
    const bool goes = is_long(word) == long_words && checksum(word) % share.divisor != 0;
    if (goes) share.bytes -= static_cast<int64_t>(word.size());
    return goes;
  });
}

#ifdef HEED_HAVE_SENTENCEPIECE

namespace {

// SentencePiece's word separator. It may occur only at the start of a token, exactly as a space in a word here.
constexpr char32_t kSpace = 0x2581;

// Printable ASCII is unchanged. Control characters become their Unicode pictures, which count as punctuation; bytes
// above 127 become letters of Latin Extended-A.
char32_t character_of(uint8_t byte) {
  if (byte == ' ') return kSpace;
  if (byte < 0x20) return 0x2400 + byte;
  if (byte == 0x7F) return 0x2421;
  return byte < 0x7F ? byte : 0x100 + (byte - 0x80);
}

std::string to_characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, character_of(static_cast<uint8_t>(c)));
  return text;
}

std::string to_bytes(std::string_view text) {
  std::unordered_map<char32_t, char> byte_of;
  for (int byte = 0; byte < 256; ++byte) byte_of[character_of(static_cast<uint8_t>(byte))] = static_cast<char>(byte);
  std::string bytes;
  while (!text.empty()) {
    const Utf8Step step = next_character(text);
    const auto byte = byte_of.find(step.code_point);
    require<DataError>(step.status == Utf8Status::valid && byte != byte_of.end(),
                       "SentencePiece made a piece of characters that it was not given");
    bytes += byte->second;
    text.remove_prefix(step.length);
  }
  return bytes;
}

// The words of `counts`, most frequent first, in SentencePiece's "tsv" format. `counts` must outlive the iterator.
class WordIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit WordIterator(const WordCounts& counts) {
    for (const auto& word : counts.words()) words_.push_back(&word);
    std::sort(words_.begin(), words_.end(), [](const auto* a, const auto* b) {
      return a->second != b->second ? a->second > b->second : a->first < b->first;
    });
    write_line();
  }

  bool done() const override { return next_ >= words_.size(); }
  void Next() override {
    ++next_;
    write_line();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void write_line() {
    if (!done()) line_ = fmt::format("{}\t{}", to_characters(words_[next_]->first), words_[next_]->second);
  }

  std::vector<const std::pair<const std::string, int64_t>*> words_;
  size_t next_ = 0;
  std::string line_;
};

int64_t count_different_bytes(const WordCounts& counts) {
  std::vector<bool> seen(256);
  for (const auto& [word, count] : counts.words()) {
    for (const char c : word) seen[static_cast<uint8_t>(c)] = true;
  }
  return std::count(seen.begin(), seen.end(), true);
}

void require_ok(const sentencepiece::util::Status& status) {
  require<DataError>(status.ok(), "SentencePiece could not learn a vocabulary: {}", status.ToString());
}

}  // namespace

bool can_train_bpe() { return true; }

void require_bpe_training() {}

std::vector<std::string> train_bpe(const WordCounts& counts, int64_t num_merges) {
  if (counts.words().empty() || num_merges == 0) return {};
  const int64_t vocab_size = 1 + count_different_bytes(counts) + num_merges;  // the unknown token, then the bytes
  WordIterator words(counts);
  std::string model;
  require_ok(sentencepiece::SentencePieceTrainer::Train(
      {
          {"model_type", "bpe"},
          {"input_format", "tsv"},
          {"vocab_size", fmt::format("{}", vocab_size)},
          {"hard_vocab_limit", "false"},
          {"character_coverage", "1"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"max_sentencepiece_length", "32"},
          {"max_sentence_length", "65536"},
          {"unk_id", "0"},
          {"bos_id", "-1"},
          {"eos_id", "-1"},
          {"pad_id", "-1"},
          {"num_threads", "1"},
          {"minloglevel", "3"},
      },
      &words, &model));
  sentencepiece::SentencePieceProcessor processor;
  require_ok(processor.LoadFromSerializedProto(model));
  std::vector<std::string> merged;
  // On a long text, SentencePiece omits the rarest characters (it sums their frequencies in f32) and makes as many more
  // merges.
  for (int id = 1; id < processor.GetPieceSize() && static_cast<int64_t>(merged.size()) < num_merges; ++id) {
    const std::string bytes = to_bytes(processor.IdToPiece(id));
    if (bytes.size() >= 2) merged.push_back(bytes);
  }
  return merged;
}

#else

bool can_train_bpe() { return false; }

void require_bpe_training() {
  throw ConfigError(
      "data.tokenizer = \"bpe\" needs SentencePiece, which this build was made without: install libsentencepiece-dev "
      "(Debian, Ubuntu) and build again, or take \"byte\" or \"char\"");
}

std::vector<std::string> train_bpe(const WordCounts&, int64_t) {
  require_bpe_training();
  return {};
}

#endif

}  // namespace heed::data
