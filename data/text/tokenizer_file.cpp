#include "data/text/tokenizer_file.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "autograd/core/check.hpp"
#include "data/io/json_reader.hpp"
#include "data/io/posix_file.hpp"
#include "data/io/quoted_start.hpp"
#include "data/text/byte_alphabet.hpp"

namespace heed::data {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using Json = nlohmann::json;

constexpr const char* kEndsOfText[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};

// The vocabulary while it is read: each token by its name in the file.
class Vocabulary {
 public:
  Vocabulary(const Json& vocab, const std::string& name) : name_(name) {
    const JsonObject object(vocab, name + ": vocab");
    require<DataError>(static_cast<int64_t>(vocab.size()) <= Tokenizer::kMaxVocabSize,
                       "{} has {} tokens, at most {} are read", object.where(), vocab.size(), Tokenizer::kMaxVocabSize);
    for (const auto& [token, id] : vocab.items()) {
      const bool is_id = id.is_number_unsigned() && id.get<uint64_t>() < uint64_t{Tokenizer::kMaxVocabSize};
      if (!is_id) {
        throw DataError(fmt::format("{} has the token {} with an id that is not an integer from 0 to {}",
                                    object.where(), quoted_start(token), Tokenizer::kMaxVocabSize - 1));
      }
      add(token, id.get<int64_t>());
    }
  }

  // An added token may be in the vocabulary, too.
  void add_special(const std::string& token, int64_t id, bool special) {
    const auto found = ids_.find(token);
    if (found == ids_.end()) add(token, id);
    require<DataError>(ids_.at(token) == id, "{} has the token {} as {} and as added token {}", name_,
                       quoted_start(token), ids_.at(token), id);
    added_.push_back({static_cast<int32_t>(id), special});
  }

  int32_t id_of(std::string_view token, size_t rank) const {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end()) {
      throw DataError(
          fmt::format("{} has merge {} of {}, which is no token of the vocabulary", name_, rank, quoted_start(token)));
    }
    return found->second;
  }

  const std::unordered_map<std::string, int32_t>& ids() const { return ids_; }

  void finish(ByteLevelBpeParts& parts) && {
    std::sort(added_.begin(), added_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    std::unordered_set<int32_t> is_added;
    for (const auto& added : added_) is_added.insert(added.id);
    parts.pieces.resize(ids_.size());
    for (const auto& [token, id] : ids_) {
      if (id >= static_cast<int64_t>(ids_.size())) {
        throw DataError(fmt::format("{} has {} tokens, and {} has id {}: the ids must be 0 to {}, without gaps", name_,
                                    ids_.size(), quoted_start(token), id, ids_.size() - 1));
      }
      std::optional<std::string> bytes = is_added.contains(id) ? token : bytes_of_name(token);
      if (!bytes) {
        throw DataError(
            fmt::format("{} has the token {}, id {}, which is no byte-level token", name_, quoted_start(token), id));
      }
      require<DataError>(parts.pieces[id].empty(), "{} has id {} twice", name_, id);
      parts.pieces[id] = std::move(*bytes);
    }
    for (const char* end : kEndsOfText) {
      const auto found = ids_.find(end);
      if (parts.end_of_text < 0 && found != ids_.end() && is_added.contains(found->second))
        parts.end_of_text = found->second;
    }
    parts.added = std::move(added_);
  }

 private:
  void add(const std::string& token, int64_t id) {
    require<DataError>(!token.empty(), "{} has an empty token, id {}", name_, id);
    ids_.emplace(token, static_cast<int32_t>(id));
  }

  const std::string& name_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<ByteLevelBpeParts::AddedToken> added_;
};

void require_off(const JsonObject& object, const char* key) {
  const Json& json = object.json();
  const auto found = json.find(key);
  const bool is_off = found == json.end() || found->is_null() || *found == false || *found == "" || *found == 0.0;
  require<DataError>(is_off, "{} has {} = {}, heed reads only files without it", object.where(), key,
                     quoted_start(is_off ? "" : found->dump(-1, ' ', true, Json::error_handler_t::replace)));
}

std::string type_of(const JsonObject& object, const char* key) {
  return object.has(key) ? object.object(key).text_or("type", "") : "none";
}

void read_normalizer(const JsonObject& root) {
  const std::string type = type_of(root, "normalizer");
  require<DataError>(type == "none",
                     "{} has the normalizer {}, and a text that it changes would not come back: set \"normalizer\" to "
                     "null in a copy of the file; only the ids of texts that it changes differ then",
                     root.where(), quoted_start(type));
}

// One step of the pre-tokenizer. Returns whether it is the last one, ByteLevel.
bool read_step(const JsonObject& step, std::vector<std::string>& patterns) {
  const std::string type = step.text("type");
  require<DataError>(type == "Split" || type == "ByteLevel",
                     "{} has the type {}, the allowed ones are \"Split\" and, as the last one, \"ByteLevel\"",
                     step.where(), quoted_start(type));
  if (type == "ByteLevel") {
    require_off(step, "add_prefix_space");
    if (step.flag_or("use_regex", true)) patterns.emplace_back(kGpt2Pattern);
    return true;
  }
  const std::string behavior = step.text("behavior");
  require<DataError>(behavior == "Isolated", "{} has the behavior {}, the allowed one is \"Isolated\"", step.where(),
                     quoted_start(behavior));
  require_off(step, "invert");
  patterns.push_back(step.object("pattern").text("Regex"));
  return false;
}

void read_pre_tokenizer(const JsonObject& root, std::vector<std::string>& patterns) {
  const JsonObject first = root.object("pre_tokenizer");
  if (first.text("type") != "Sequence") {
    require<DataError>(read_step(first, patterns), "{} has no ByteLevel, it must be the last step", first.where());
    return;
  }
  const Json& steps = first.list("pretokenizers");
  bool is_complete = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    const JsonObject step(steps[i], fmt::format("{}: pretokenizers[{}]", first.where(), i));
    require<DataError>(!is_complete, "{} follows ByteLevel, which must be the last step", step.where());
    require<DataError>(static_cast<int64_t>(i) <= ByteLevelBpe::kMaxPatterns, "{} has {} steps, at most {} are read",
                       first.where(), steps.size(), ByteLevelBpe::kMaxPatterns + 1);
    is_complete = read_step(step, patterns);
  }
  require<DataError>(is_complete, "{} has no ByteLevel, it must be the last step", first.where());
}

// "a b", or ["a", "b"].
std::pair<std::string, std::string> read_merge(const Json& merge, const std::string& name, size_t rank) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const size_t space = text.find(' ');
  require<DataError>(space != std::string::npos && text.find(' ', space + 1) == std::string::npos,
                     "{} has a merge {} that is not two tokens", name, rank);
  return {text.substr(0, space), text.substr(space + 1)};
}

void require_merge_count(size_t count, const std::string& name) {
  require<DataError>(static_cast<int64_t>(count) <= ByteLevelBpe::kMaxMerges, "{} has {} merges, at most {} are read",
                     name, count, ByteLevelBpe::kMaxMerges);
}

PosixFile open_tokenizer(const std::string& path) {
  try {
    return PosixFile(path, PosixFile::Access::read);
  } catch (const DataError& error) {
    throw DataError(fmt::format(
        "{}; data.tokenizer_file must name a tokenizer.json, a vocab.json with its merges.txt, or a folder with one",
        error.what()));
  }
}

std::string read_text(const std::string& path) {
  const PosixFile file = open_tokenizer(path);
  const int64_t size = file.size();
  require<DataError>(size <= kMaxTokenizerFileBytes, "{} has {} bytes, at most {} are read", file.name(), size,
                     kMaxTokenizerFileBytes);
  std::string text(size, '\0');
  file.read(0, text);
  return text;
}

}  // namespace

ByteLevelBpeParts parse_tokenizer_json(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonObject root(json, name);
  const JsonObject model = root.object("model");
  ByteLevelBpeParts parts;
  const std::string type = model.text_or("type", "BPE");
  require<DataError>(type == "BPE", "{} has the type {}, the allowed one is \"BPE\"", model.where(),
                     quoted_start(type));
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"})
    require_off(model, key);
  parts.whole_words = model.flag_or("ignore_merges", false);
  read_normalizer(root);
  read_pre_tokenizer(root, parts.patterns);
  const std::string decoder = type_of(root, "decoder");
  require<DataError>(decoder == "ByteLevel", "{} has the decoder {}, the allowed one is \"ByteLevel\"", root.where(),
                     quoted_start(decoder));

  Vocabulary vocabulary(model.object("vocab").json(), name);
  const Json none = Json::array();
  const Json& added = root.has("added_tokens") ? root.list("added_tokens") : none;
  for (size_t i = 0; i < added.size(); ++i) {
    const JsonObject token(added[i], fmt::format("{}: added_tokens[{}]", name, i));
    vocabulary.add_special(token.text("content"), token.integer("id", 0, Tokenizer::kMaxVocabSize - 1),
                           token.flag_or("special", false));
  }
  const Json& merges = model.list("merges");
  require_merge_count(merges.size(), name);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = read_merge(merges[rank], name, rank);
    parts.merges.emplace_back(vocabulary.id_of(left, rank), vocabulary.id_of(right, rank));
  }
  std::move(vocabulary).finish(parts);
  return parts;
}

ByteLevelBpeParts parse_vocab_and_merges(std::string_view vocab, const std::string& vocab_name, std::string_view merges,
                                         const std::string& merges_name) {
  const Json json = parse_json(vocab, vocab_name);
  Vocabulary vocabulary(json, vocab_name);
  ByteLevelBpeParts parts;
  parts.patterns = {kGpt2Pattern};
  std::unordered_set<std::string> made;
  for (bool is_first = true; !merges.empty(); is_first = false) {
    const size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (is_first && line.starts_with("#version"))) continue;
    const size_t rank = parts.merges.size();
    require_merge_count(rank + 1, merges_name);
    const size_t space = line.find(' ');
    require<DataError>(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
                       "{} has a merge {} that is not two tokens", merges_name, rank);
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    parts.merges.emplace_back(vocabulary.id_of(left, rank), vocabulary.id_of(right, rank));
    made.insert(std::string(left) + std::string(right));
  }
  std::vector<std::pair<std::string, int32_t>> not_made;
  for (const auto& [token, id] : vocabulary.ids()) {
    const std::optional<std::string> bytes = bytes_of_name(token);
    if (!made.contains(token) && (!bytes || bytes->size() > 1)) not_made.emplace_back(token, id);
  }
  for (const auto& [token, id] : not_made) vocabulary.add_special(token, id, true);
  std::move(vocabulary).finish(parts);
  return parts;
}

ByteLevelBpeParts read_tokenizer_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(file, error)) {
    const bool is_classic = !fs::exists(file / "tokenizer.json", error) && fs::exists(file / "vocab.json", error);
    file /= is_classic ? "vocab.json" : "tokenizer.json";
  }
  if (file.filename() != "vocab.json") return parse_tokenizer_json(read_text(file), quoted_path(file));
  const fs::path merges = file.parent_path() / "merges.txt";
  return parse_vocab_and_merges(read_text(file), quoted_path(file), read_text(merges), quoted_path(merges));
}

}  // namespace heed::data
