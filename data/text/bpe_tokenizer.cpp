#include "data/text/bpe_tokenizer.hpp"

#include <algorithm>
#include <limits>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

constexpr int32_t kNoPiece = std::numeric_limits<int32_t>::max();

std::vector<std::string> all_pieces(std::vector<std::string> merged) {
  std::vector<std::string> pieces = byte_pieces();
  pieces.insert(pieces.end(), std::make_move_iterator(merged.begin()), std::make_move_iterator(merged.end()));
  return pieces;
}

}  // namespace

int64_t word_length(std::string_view text) {
  const std::string_view window = text.substr(0, BpeTokenizer::kMaxWordBytes);
  for (size_t i = 0; i < window.size(); ++i) {
    if (window[i] == '\n') return static_cast<int64_t>(i) + 1;
    if (i > 0 && window[i] == ' ') return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(window.size());
}

bool word_is_whole(std::string_view text, int64_t length) {
  return length < static_cast<int64_t>(text.size()) || length == BpeTokenizer::kMaxWordBytes ||
         text[length - 1] == '\n';
}

BpeTokenizer::BpeTokenizer(std::vector<std::string> merged, bool has_end_token)
    : Tokenizer(TokenizerKind::bpe, all_pieces(std::move(merged)), has_end_token) {
  const int32_t count = static_cast<int32_t>(vocab_size()) - (has_end_token ? 1 : 0);
  std::unordered_map<std::string_view, int32_t> ids;
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view piece = pieces()[id];
    const auto size = static_cast<int64_t>(piece.size());
    require<ValueError>(id < 256 || (2 <= size && size <= kMaxPieceBytes),
                        "bpe piece {} has {} bytes, it must have 2 to {}", id, size, kMaxPieceBytes);
    require<ValueError>(ids.emplace(piece, id).second, "bpe piece {} is there twice", id);
  }
  for (int32_t id = 256; id < count; ++id) {
    const std::string_view piece = pieces()[id];
    bool can_be_made = false;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = ids.find(piece.substr(0, cut)), right = ids.find(piece.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      joins_[pair_key(left->second, right->second)] = id;
      can_be_made = can_be_made || (left->second < id && right->second < id);
    }
    require<ValueError>(can_be_made, "bpe piece {} is not the join of two earlier ones", id);
  }
}

uint64_t BpeTokenizer::pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

int32_t BpeTokenizer::join(int32_t left, int32_t right) const {
  const auto found = joins_.find(pair_key(left, right));
  return found == joins_.end() ? kNoPiece : found->second;
}

template <class UsePiece>
void BpeTokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids, UsePiece use_piece) const {
  std::vector<int32_t> symbols(word.size()), joined(word.size(), kNoPiece);  // joined[i]: merge of symbols i and i + 1
  std::transform(word.begin(), word.end(), symbols.begin(), [](char c) { return static_cast<uint8_t>(c); });
  const auto look_up = [&](size_t i) {
    joined[i] = i + 1 < symbols.size() ? join(symbols[i], symbols[i + 1]) : kNoPiece;
  };
  for (size_t i = 0; i < symbols.size(); ++i) look_up(i);
  while (true) {
    const auto earliest = std::min_element(joined.begin(), joined.end());
    if (*earliest == kNoPiece) break;
    const size_t i = earliest - joined.begin();
    symbols[i] = *earliest;
    use_piece(symbols[i]);
    symbols.erase(symbols.begin() + static_cast<int64_t>(i) + 1);
    joined.erase(joined.begin() + static_cast<int64_t>(i) + 1);
    look_up(i);
    if (i > 0) look_up(i - 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, Unknown) const {
  std::vector<int32_t> ids;
  std::unordered_map<std::string_view, std::vector<int32_t>> known;  // cache: a text has few different words
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view word = rest.substr(0, word_length(rest));
    rest.remove_prefix(word.size());
    const bool ends_line = has_end_token() && word.back() == '\n';
    if (ends_line) word.remove_suffix(1);
    if (!word.empty()) {
      const auto [entry, is_new] = known.try_emplace(word);
      if (is_new) encode_word(word, entry->second, [](int32_t) {});
      ids.insert(ids.end(), entry->second.begin(), entry->second.end());
    }
    if (ends_line) ids.push_back(*end_token());
  }
  return ids;
}

std::vector<bool> BpeTokenizer::pieces_made(const std::vector<std::string_view>& words) const {
  std::vector<bool> made(pieces().size() - 256 - (has_end_token() ? 1 : 0));
  for (const std::string_view word : words) {
    std::vector<int32_t> ids;
    encode_word(word, ids, [&](int32_t id) { made[id - 256] = true; });
  }
  return made;
}

int64_t BpeTokenizer::safe_cut(std::string_view text) const {
  int64_t cut = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const int64_t length = word_length(rest);
    if (!word_is_whole(rest, length)) break;
    cut += length;
    rest.remove_prefix(length);
  }
  return cut;
}

}  // namespace heed::data
