#include "data/text/tokenizer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"
#include "data/io/utf8.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "data/text/byte_level_bpe_format.hpp"
#include "data/text/char_tokenizer.hpp"

namespace heed::data {

namespace {

// Serialized format: magic, kind, has_end_token, number of tokens without the end token (u32), length (one byte) and
// bytes of each token, for kind file its rules (byte_level_bpe_format.hpp), checksum of all these bytes (u64). The
// magic of kind file is the second one: earlier versions refuse it.
constexpr std::string_view kMagic = "heedtok2", kMagicWithRules = "heedtok3";
constexpr size_t kHeaderBytes = kMagic.size() + 2 + sizeof(uint32_t), kSmallestBytes = kHeaderBytes + sizeof(uint64_t);

template <class Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <class Number>
Number number_at(std::string_view bytes, size_t offset) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

void require_intact(bool condition, const char* what) {
  require<DataError>(condition, "the stored tokenizer is damaged: {}", what);
}

// Removes the pieces from bytes.
std::vector<std::string> take_pieces(std::string_view& bytes, uint32_t count) {
  require_intact(count <= bytes.size() / 2, "it is shorter than its number of pieces");
  std::vector<std::string> pieces;
  pieces.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const size_t length = bytes.empty() ? 0 : static_cast<uint8_t>(bytes.front());
    require_intact(length > 0 && length < bytes.size(), "a piece has no length or ends after the end");
    pieces.emplace_back(bytes.substr(1, length));
    bytes.remove_prefix(1 + length);
  }
  return pieces;
}

std::unique_ptr<Tokenizer> make_tokenizer(uint8_t kind, std::string_view body, bool has_end_token) {
  std::string_view rules = body.substr(kHeaderBytes);
  std::vector<std::string> pieces = take_pieces(rules, number_at<uint32_t>(body, kMagic.size() + 2));
  if (TokenizerKind{kind} == TokenizerKind::file)
    return std::make_unique<ByteLevelBpe>(parse_rules(std::move(pieces), rules), has_end_token);
  require_intact(rules.empty(), "bytes follow the last piece");
  switch (TokenizerKind{kind}) {
    case TokenizerKind::character:
      return std::make_unique<CharTokenizer>(CharTokenizer::code_points_of(pieces), has_end_token);
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>(has_end_token);
    case TokenizerKind::bpe:
      pieces.erase(pieces.begin(), pieces.begin() + std::min<int64_t>(256, static_cast<int64_t>(pieces.size())));
      return std::make_unique<BpeTokenizer>(std::move(pieces), has_end_token);
    case TokenizerKind::file:
      break;  // above
  }
  throw DataError(fmt::format("the stored tokenizer is of kind {}, which this version does not know", kind));
}

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

const char* tokenizer_name(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::character:
      return "char";
    case TokenizerKind::byte:
      return "byte";
    case TokenizerKind::bpe:
      return "bpe";
    case TokenizerKind::file:
      return "file";
  }
  throw ValueError("tokenizer_name: no such kind");
}

Tokenizer::Tokenizer(TokenizerKind kind, std::vector<std::string> pieces, bool has_end_token)
    : kind_(kind), has_end_token_(has_end_token), pieces_(std::move(pieces)) {
  if (has_end_token_) pieces_.emplace_back("\n");
  require<ValueError>(1 <= vocab_size() && vocab_size() <= kMaxVocabSize,
                      "a tokenizer of {} tokens, it must have 1 to {}", vocab_size(), kMaxVocabSize);
}

std::optional<int32_t> Tokenizer::end_token() const {
  return has_end_token_ ? std::optional(static_cast<int32_t>(vocab_size()) - 1) : std::nullopt;
}

int32_t Tokenizer::start_token() const {
  if (has_end_token_) return *end_token();
  const auto line_feed = std::find(pieces_.begin(), pieces_.end(), "\n");
  return line_feed == pieces_.end() ? 0 : static_cast<int32_t>(line_feed - pieces_.begin());
}

std::string_view Tokenizer::bytes(int32_t id) const {
  require<ValueError>(0 <= id && id < vocab_size(), "token {} is outside the vocabulary, it must be 0 to {}", id,
                      vocab_size() - 1);
  return pieces_[id];
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += bytes(id);
  return text;
}

std::string Tokenizer::serialize() const {
  const size_t count = pieces_.size() - (has_end_token_ ? 1 : 0);
  std::string result(kind_ == TokenizerKind::file ? kMagicWithRules : kMagic);
  result += static_cast<char>(kind_);
  result += static_cast<char>(has_end_token_);
  append_number(result, static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    result += static_cast<char>(pieces_[i].size());
    result += pieces_[i];
  }
  result += serialized_rules();
  append_number(result, checksum(result));
  return result;
}

std::unique_ptr<Tokenizer> Tokenizer::parse(std::string_view serialized) {
  require_intact(serialized.size() >= kSmallestBytes, "it is too short");
  require_intact(serialized.starts_with(kMagic) || serialized.starts_with(kMagicWithRules), "it does not begin as one");
  const std::string_view body = serialized.substr(0, serialized.size() - sizeof(uint64_t));
  require_intact(number_at<uint64_t>(serialized, body.size()) == checksum(body), "its checksum does not fit");
  const auto kind = static_cast<uint8_t>(body[kMagic.size()]);
  const bool has_end_token = body[kMagic.size() + 1] != 0;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = make_tokenizer(kind, body, has_end_token);
  } catch (const ValueError& error) {
    require_intact(false, error.what());
  }
  // Detects everything that the constructors do not check.
  require_intact(tokenizer->serialize() == serialized, "its table is not what its kind has");
  return tokenizer;
}

std::vector<std::string> byte_pieces() {
  std::vector<std::string> pieces(256);
  for (int byte = 0; byte < 256; ++byte) pieces[byte].assign(1, static_cast<char>(byte));
  return pieces;
}

std::string StreamDecoder::push(int32_t id) {
  open_ += tokenizer_.bytes(id);
  std::string text;
  std::string_view rest = open_;
  while (!rest.empty()) {
    const Utf8Step step = next_character(rest);
    if (step.status == Utf8Status::incomplete) break;
    append_utf8(text, step.status == Utf8Status::valid ? step.code_point : kReplacement);
    rest.remove_prefix(step.length);
  }
  open_ = std::string(rest);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  if (!std::exchange(open_, {}).empty()) append_utf8(text, kReplacement);
  return text;
}

}  // namespace heed::data
