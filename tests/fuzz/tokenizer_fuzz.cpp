// libFuzzer on the readers of tokenizer files, and on what they read.
//
// The first byte chooses what the others are:
// - a tokenizer.json;
// - merges.txt, for a vocabulary of all bytes and a few pairs;
// - a regular expression that splits words, a zero byte, and a text. The text must come back, alone and cut where
//   safe_cut() allows it, and so must the tokenizer from its bytes and from its own tokenizer.json.
#include <algorithm>
#include <memory>
#include <string>

#include "autograd/core/check.hpp"
#include "data/text/byte_alphabet.hpp"
#include "data/text/byte_level_bpe.hpp"
#include "data/text/tokenizer_file.hpp"
#include "data/text/tokenizer_json.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

using namespace heed;
using namespace heed::data;
using heed::test::expect, heed::test::expect_one_line;

// Bytes, and some merges of letters, spaces and line feeds.
ByteLevelBpeParts some_parts() {
  ByteLevelBpeParts parts;
  parts.pieces = byte_pieces();
  for (const auto& [left, right] :
       {std::pair(' ', 'a'), std::pair('a', 'a'), std::pair('\n', '\n'), std::pair(' ', ' ')}) {
    parts.merges.emplace_back(left, right);
    parts.pieces.push_back(std::string(1, left) + right);
  }
  parts.pieces.emplace_back("<|endoftext|>");
  parts.added = {{static_cast<int32_t>(parts.pieces.size()) - 1, true}};
  parts.end_of_text = parts.added.front().id;
  return parts;
}

std::string vocab_json() {
  std::string json = "{";
  int id = 0;
  for (const std::string& piece : some_parts().pieces) {
    std::string name = byte_level_name(piece);
    if (name == "\"" || name == "\\") name = "\\" + name;
    json += (id > 0 ? ",\"" : "\"") + name + "\":" + std::to_string(id);
    ++id;
  }
  return json + "}";
}

void check(const ByteLevelBpeParts& parts, std::string_view text) {
  const ByteLevelBpe tokenizer(parts, false);
  const std::vector<int32_t> ids = tokenizer.encode(text);
  expect(tokenizer.decode(ids) == text);
  const int64_t cut = tokenizer.safe_cut(text.substr(0, text.size() / 2));
  std::vector<int32_t> both = tokenizer.encode(text.substr(0, cut));
  const std::vector<int32_t> rest = tokenizer.encode(text.substr(cut));
  both.insert(both.end(), rest.begin(), rest.end());
  expect(both == ids);
  expect(Tokenizer::parse(tokenizer.serialize())->encode(text) == ids);
}

void use(uint8_t choice, std::string_view bytes) {
  if (choice % 3 == 0) {
    check(parse_tokenizer_json(bytes, "t.json"), "a text  of\n words, \xFF and 12 numbers");
  } else if (choice % 3 == 1) {
    static const std::string vocab = vocab_json();
    check(parse_vocab_and_merges(vocab, "vocab.json", bytes, "merges.txt"), "aa  a\n\n\naaa b");
  } else {
    ByteLevelBpeParts parts = some_parts();
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    parts.patterns = {std::string(bytes.substr(0, end))};
    const std::string_view text = bytes.substr(std::min(end + 1, bytes.size()));
    check(parts, text);
    const ByteLevelBpe tokenizer(parts, false);
    expect(parse_tokenizer_json(tokenizer_json(tokenizer), "again") == parts);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    use(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const DataError& error) {
    expect_one_line(error.what());
  }
  return 0;
}
