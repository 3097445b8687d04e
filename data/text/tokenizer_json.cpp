#include "data/text/tokenizer_json.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "autograd/core/check.hpp"
#include "data/text/byte_alphabet.hpp"
#include "data/text/byte_level_bpe.hpp"

namespace heed::data {

namespace {

using Json = nlohmann::json;

// The rule of word_length() (bpe_tokenizer.hpp) on the names of bytes: a word begins at each space and after each line
// feed, and has at most 256 bytes. With an end token the line feeds are words.
constexpr const char* kWords = "Ċ|[^Ċ](?:[^ĠĊ]{0,254}Ċ|[^ĠĊ]{0,255})";
constexpr const char* kWordsOfLines = "Ċ|[^Ċ][^ĠĊ]{0,255}";

Json split(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json byte_level(bool for_decoder = false) {
  Json json = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  if (for_decoder) json["use_regex"] = true;
  return json;
}

Json sequence(Json steps) { return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}; }

Json model(Json vocab, Json merges, bool whole_words = false) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", whole_words},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

// The name of a token. With an end token, which has the name of the line feed, the byte of a line feed is never
// encoded; its name is the character itself, which decodes to it.
std::string name_of(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.bytes(id);
  if (bytes == "\n" && tokenizer.end_token() && id != *tokenizer.end_token()) return "\n";
  return byte_level_name(bytes);
}

// All tokens but the omitted ids.
Json byte_level_vocab(const Tokenizer& tokenizer, const std::unordered_set<int32_t>& omitted = {}) {
  Json vocab = Json::object();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!omitted.contains(id)) vocab[name_of(tokenizer, id)] = id;
  }
  return vocab;
}

// All pairs of tokens that make a token, in the order of the tokens they make.
Json bpe_merges(const Tokenizer& tokenizer) {
  const auto count = static_cast<int32_t>(tokenizer.vocab_size()) - (tokenizer.end_token() ? 1 : 0);
  std::unordered_set<std::string_view> known;
  for (int32_t id = 0; id < count; ++id) known.insert(tokenizer.bytes(id));
  Json merges = Json::array();
  for (int32_t id = 256; id < count; ++id) {
    const std::string_view piece = tokenizer.bytes(id);
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const std::string_view left = piece.substr(0, cut), right = piece.substr(cut);
      if (known.contains(left) && known.contains(right))
        merges.push_back({byte_level_name(left), byte_level_name(right)});
    }
  }
  return merges;
}

struct Description {
  Json model, pre_tokenizer, decoder = byte_level(true), added_tokens = Json::array();
};

Description describe_char(const Tokenizer& tokenizer) {
  Json vocab = Json::object();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) vocab[std::string(tokenizer.bytes(id))] = id;
  return {model(std::move(vocab), Json::array()), nullptr, {{"type", "Fuse"}}};
}

Description describe_file(const ByteLevelBpe& tokenizer) {
  const ByteLevelBpeParts parts = tokenizer.parts();
  Description result;
  std::unordered_set<int32_t> added;  // by id: an ordinary token may have the same bytes
  for (const auto& token : parts.added) added.insert(token.id);
  Json steps = Json::array(), vocab = byte_level_vocab(tokenizer, added), merges = Json::array();
  for (const auto& [id, special] : parts.added) {
    const std::string& content = parts.pieces[id];
    result.added_tokens.push_back({{"id", id},
                                   {"content", content},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", false},
                                   {"special", special}});
  }
  for (const auto& [left, right] : parts.merges)
    merges.push_back({byte_level_name(parts.pieces[left]), byte_level_name(parts.pieces[right])});
  if (tokenizer.end_token()) steps.push_back(split("\\n"));
  for (const std::string& pattern : parts.patterns) steps.push_back(split(pattern));
  steps.push_back(byte_level());
  result.model = model(std::move(vocab), std::move(merges), parts.whole_words);
  result.pre_tokenizer = sequence(std::move(steps));
  return result;
}

Description describe(const Tokenizer& tokenizer) {
  switch (tokenizer.kind()) {
    case TokenizerKind::character:
      return describe_char(tokenizer);
    case TokenizerKind::byte:
      return {model(byte_level_vocab(tokenizer), Json::array()), byte_level()};
    case TokenizerKind::bpe:
      return {model(byte_level_vocab(tokenizer), bpe_merges(tokenizer)),
              sequence({byte_level(), split(tokenizer.end_token() ? kWordsOfLines : kWords)})};
    case TokenizerKind::file:
      return describe_file(dynamic_cast<const ByteLevelBpe&>(tokenizer));
  }
  throw ValueError("tokenizer_json: no such kind");
}

}  // namespace

std::string tokenizer_json(const Tokenizer& tokenizer) {
  Description description = describe(tokenizer);
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(description.added_tokens)},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", std::move(description.pre_tokenizer)},
                     {"post_processor", nullptr},
                     {"decoder", std::move(description.decoder)},
                     {"model", std::move(description.model)}};
  return json.dump(1) + "\n";
}

std::string tokenizer_config_json(const Tokenizer& tokenizer, int64_t max_length) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", max_length},
               {"clean_up_tokenization_spaces", false}};
  if (tokenizer.kind() == TokenizerKind::file) {
    const int32_t end = dynamic_cast<const ByteLevelBpe&>(tokenizer).parts().end_of_text;
    if (end >= 0) json["eos_token"] = std::string(tokenizer.bytes(end));
  }
  return json.dump(1) + "\n";
}

}  // namespace heed::data
