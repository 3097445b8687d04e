#include "data/text/byte_level_bpe.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "autograd/core/check.hpp"
#include "data/io/quoted_start.hpp"
#include "data/io/utf8.hpp"
#include "data/text/byte_level_bpe_format.hpp"

namespace heed::data {

namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// The first part of a text: characters, or the bytes that belong to none.
struct Run {
  size_t length = 0;
  bool is_text = false;
};

Run first_run(std::string_view text) {
  Run run;
  while (run.length < text.size()) {
    const auto byte = static_cast<uint8_t>(text[run.length]);
    const Utf8Step step = byte < 0x80 ? Utf8Step{Utf8Status::valid, 1} : next_character(text.substr(run.length));
    const bool is_valid = step.status == Utf8Status::valid;
    if (run.length > 0 && is_valid != run.is_text) break;
    run.is_text = is_valid;
    run.length += static_cast<size_t>(step.length);
  }
  return run;
}

// use(word) for each word of the characters of `text`, split by patterns[0], patterns[1] …
template <class Use>
void split_words(std::string_view text, std::span<const WordPattern> patterns, const Use& use) {
  if (text.empty()) return;
  if (patterns.empty()) return use(text);
  WordPattern::Search search(patterns.front(), text);
  int64_t at = 0;
  const auto split_further = [&](int64_t end) {
    if (end > at) split_words(text.substr(at, end - at), patterns.subspan(1), use);
    at = end;
  };
  while (at < static_cast<int64_t>(text.size())) {
    const WordPattern::Search::Match match = search.next(at);
    if (match.status != WordPattern::Search::Match::Status::found) break;
    split_further(match.begin);
    split_further(match.end);
  }
  split_further(static_cast<int64_t>(text.size()));
}

// Merges one word. The symbols are a linked list and their pairs a heap, so that a long word takes n log n steps.
class WordMerger {
 public:
  struct Candidate {
    int32_t rank, left, right, left_id, right_id, id;
    bool operator>(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
  };
  struct Symbol {
    int32_t id, previous, next;  // next -1: the last; id -1: merged into the one before
  };

  template <class FindMerge>
  std::vector<int32_t> merge(std::vector<Symbol> symbols, const FindMerge& find) {
    const auto look_at = [&](int32_t left) {
      const int32_t right = left < 0 ? -1 : symbols[left].next;
      if (right < 0) return;
      const auto* found = find(symbols[left].id, symbols[right].id);
      if (found != nullptr) heap_.push({found->rank, left, right, symbols[left].id, symbols[right].id, found->id});
    };
    for (size_t i = 0; i < symbols.size(); ++i) look_at(static_cast<int32_t>(i));
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      Symbol &left = symbols[top.left], &right = symbols[top.right];
      if (left.id != top.left_id || right.id != top.right_id || left.next != top.right) continue;  // merged before
      left.id = top.id;
      left.next = right.next;
      right.id = -1;
      if (left.next >= 0) symbols[left.next].previous = top.left;
      look_at(left.previous);
      look_at(top.left);
    }
    std::vector<int32_t> ids;
    for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
    return ids;
  }

 private:
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
};

}  // namespace

ByteLevelBpe::ByteLevelBpe(ByteLevelBpeParts parts, bool has_end_token)
    : Tokenizer(TokenizerKind::file, std::move(parts.pieces), has_end_token),
      merges_(std::move(parts.merges)),
      added_(std::move(parts.added)),
      whole_words_(parts.whole_words),
      end_of_text_(parts.end_of_text) {
  const int64_t count = vocab_size() - (has_end_token ? 1 : 0);
  require<DataError>(static_cast<int64_t>(merges_.size()) <= kMaxMerges,
                     "a tokenizer has {} merges, at most {} are read", merges_.size(), kMaxMerges);
  require<DataError>(static_cast<int64_t>(parts.patterns.size()) <= kMaxPatterns,
                     "a tokenizer has {} regular expressions, at most {} are read", parts.patterns.size(),
                     kMaxPatterns);
  std::vector<bool> is_added(count);
  for (size_t i = 0; i < added_.size(); ++i) {
    const int32_t id = added_[i].id;
    require<DataError>(0 <= id && id < count && (i == 0 || added_[i - 1].id < id),
                       "added token {} is there twice, out of order or not one of {} ids", id, count);
    is_added[id] = true;
    const std::string_view name = pieces()[id];
    require<DataError>(first_run(name).is_text && first_run(name).length == name.size(),
                       "added token {}, {}, is not UTF-8", id, quoted_start(name));
  }
  require<DataError>(end_of_text_ == -1 || (0 <= end_of_text_ && end_of_text_ < count && is_added[end_of_text_]),
                     "the end of a text, token {}, is not an added token", end_of_text_);
  for (std::string& source : parts.patterns) patterns_.emplace_back(std::move(source));
  index_pieces(is_added);
  index_merges();
}

void ByteLevelBpe::index_pieces(const std::vector<bool>& is_added) {
  ids_.reserve(is_added.size());
  for (size_t id = 0; id < is_added.size(); ++id) {
    const std::string& piece = pieces()[id];
    const auto size = static_cast<int64_t>(piece.size());
    require<DataError>(1 <= size && size <= kMaxPieceBytes, "token {} has {} bytes, it must have 1 to {}", id, size,
                       kMaxPieceBytes);
    if (is_added[id]) continue;
    if (!ids_.emplace(piece, static_cast<int32_t>(id)).second)
      throw DataError(fmt::format("token {}, {}, is there twice", id, quoted_start(piece)));
  }
  for (const std::string& byte : byte_pieces()) {
    const auto found = ids_.find(byte);
    require<DataError>(found != ids_.end(), "the byte {:#04x} is no token, a byte-level tokenizer must have all 256",
                       static_cast<uint8_t>(byte.front()));
    byte_ids_.push_back(found->second);
  }
}

void ByteLevelBpe::index_merges() {
  const auto count = static_cast<int32_t>(vocab_size()) - (has_end_token() ? 1 : 0);
  joins_.reserve(merges_.size());
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto [left, right] = merges_[rank];
    for (const int32_t id : {left, right}) {
      const bool is_known = 0 <= id && id < count;
      require<DataError>(is_known && ids_.contains(pieces()[id]) && ids_.at(pieces()[id]) == id,
                         "merge {} names token {}, which is added or not one of {} ids", rank, id, count);
    }
    const std::string piece = pieces()[left] + pieces()[right];
    const auto joined = ids_.find(piece);
    if (joined == ids_.end())
      throw DataError(fmt::format("merge {} makes {}, which is no token", rank, quoted_start(piece)));
    const Merge merge{static_cast<int32_t>(rank), joined->second};
    if (!joins_.emplace(pair_key(left, right), merge).second) {
      throw DataError(fmt::format("merge {}, of {} and {}, is there twice", rank, quoted_start(pieces()[left]),
                                  quoted_start(pieces()[right])));
    }
  }
}

std::vector<int32_t> ByteLevelBpe::ids_of_word(std::string_view word) const {
  if (whole_words_) {
    const auto found = ids_.find(word);
    if (found != ids_.end()) return {found->second};
  }
  const auto size = static_cast<int32_t>(word.size());
  std::vector<WordMerger::Symbol> symbols(word.size());
  for (int32_t i = 0; i < size; ++i)
    symbols[i] = {byte_ids_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < size ? i + 1 : -1};
  return WordMerger().merge(std::move(symbols), [&](int32_t left, int32_t right) -> const Merge* {
    const auto found = joins_.find(pair_key(left, right));
    return found == joins_.end() ? nullptr : &found->second;
  });
}

std::vector<int32_t> ByteLevelBpe::encode(std::string_view text, Unknown) const {
  std::vector<int32_t> ids;
  std::unordered_map<std::string_view, std::vector<int32_t>> known;  // cache: a text has few different words
  const auto use_word = [&](std::string_view word) {
    const auto [entry, is_new] = known.try_emplace(word);
    if (is_new) entry->second = ids_of_word(word);
    ids.insert(ids.end(), entry->second.begin(), entry->second.end());
  };
  const auto use_text = [&](std::string_view part) {
    while (!part.empty()) {
      const Run run = first_run(part);
      split_words(part.substr(0, run.length),
                  run.is_text ? std::span<const WordPattern>(patterns_) : std::span<const WordPattern>(), use_word);
      part.remove_prefix(run.length);
    }
  };
  if (!has_end_token()) {
    use_text(text);
    return ids;
  }
  while (!text.empty()) {
    const size_t line = std::min(text.find('\n'), text.size());
    use_text(text.substr(0, line));
    if (line == text.size()) break;
    ids.push_back(*end_token());
    text.remove_prefix(line + 1);
  }
  return ids;
}

namespace {

using Status = WordPattern::Search::Match::Status;

// The ends of the words, and of what is between them, that are the same no matter what follows text.
std::vector<int64_t> certain_ends(const WordPattern& pattern, std::string_view text) {
  std::vector<int64_t> ends;
  WordPattern::Search search(pattern, text);
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    const auto match = search.next_of_prefix(at);
    if (match.status != Status::found) break;
    if (match.begin > at) ends.push_back(match.begin);
    ends.push_back(at = match.end);
  }
  return ends;
}

// Whether the words of `text` alone end at `ends`, of which the last is the end of text.
bool splits_at(const WordPattern& pattern, std::string_view text, std::span<const int64_t> ends) {
  WordPattern::Search search(pattern, text);
  size_t i = 0;
  int64_t at = 0;
  const auto ends_at = [&](int64_t end) {
    at = end;
    return i < ends.size() && ends[i++] == end;
  };
  while (at < static_cast<int64_t>(text.size())) {
    const auto match = search.next(at);
    if (match.status != Status::found) return ends_at(static_cast<int64_t>(text.size()));
    if (match.begin > at && !ends_at(match.begin)) return false;
    if (!ends_at(match.end)) return false;
  }
  return i == ends.size();
}

}  // namespace

int64_t ByteLevelBpe::safe_cut(std::string_view text) const {
  if (has_end_token()) return static_cast<int64_t>(text.rfind('\n') + 1);  // npos + 1 is 0
  // An incomplete character at the end waits for its next bytes.
  text = text.substr(0, size_of_whole_characters(text));
  // A text may be cut where a run begins.
  size_t begin = 0;
  Run last;
  for (size_t at = 0; at < text.size(); at += last.length) {
    begin = at;
    last = first_run(text.substr(at));
  }
  const std::string_view open = text.substr(begin);
  if (!last.is_text || patterns_.empty()) return static_cast<int64_t>(begin);
  // The first expression decides: the others see one of its words each. What follows a cut is split as before, because
  // no expression looks back; what precedes it may look ahead, so that is tried.
  constexpr int kMaxTries = 16;
  const std::vector<int64_t> ends = certain_ends(patterns_.front(), open);
  for (size_t count = ends.size(), tries = 0; count > 0 && tries < kMaxTries; --count, ++tries) {
    const std::span<const int64_t> some(ends.data(), count);
    if (splits_at(patterns_.front(), open.substr(0, some.back()), some))
      return static_cast<int64_t>(begin) + some.back();
  }
  return static_cast<int64_t>(begin);
}

int32_t ByteLevelBpe::start_token() const {
  return !has_end_token() && end_of_text_ >= 0 ? end_of_text_ : Tokenizer::start_token();
}

std::string ByteLevelBpe::serialized_rules() const { return serialize_rules(parts()); }

ByteLevelBpeParts ByteLevelBpe::parts() const {
  ByteLevelBpeParts parts{pieces(), merges_, added_, {}, whole_words_, end_of_text_};
  if (has_end_token()) parts.pieces.pop_back();
  for (const WordPattern& pattern : patterns_) parts.patterns.push_back(pattern.source());
  return parts;
}

}  // namespace heed::data
