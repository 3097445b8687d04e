#include "data/text/tokenizer_file.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/prepare.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "data/text/byte_alphabet.hpp"
#include "data/text/char_tokenizer.hpp"
#include "data/text/tokenizer_json.hpp"
#include "data/token_file.hpp"
#include "tests/data/scratch.hpp"
#include "tests/data/text/tokenizer_cases.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;
using Json = nlohmann::json;

TEST(ByteAlphabet, NamesBytesAsGpt2Does) {
  EXPECT_EQ(byte_level_name(" a\n\xC3\xA9~\xAD"), "ĠaĊÃ©~Ń");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(bytes_of_name(byte_level_name(one)), one);
  }
  EXPECT_EQ(bytes_of_name("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_name("語"), std::nullopt);
}

TEST(TokenizerFile, ReadsTheClassicPair) {
  const ScratchFolder folder;
  Json vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[byte_level_name(std::string(1, static_cast<char>(byte)))] = byte + 1;
  vocab["<|endoftext|>"] = 0;
  vocab["Ġa"] = 257;
  vocab["Ġab"] = 258;
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", "#version: 0.2\nĠ a\r\nĠa b\n\n");
  for (const char* name : {"", "vocab.json"}) {
    const ByteLevelBpe tokenizer(read_tokenizer_file(folder.path(name)), false);
    EXPECT_EQ(tokenizer.encode(" ab a"), (std::vector<int32_t>{258, 257}));
    EXPECT_EQ(tokenizer.parts().end_of_text, 0);
    EXPECT_EQ(tokenizer.start_token(), 0);
  }
  folder.write("merges.txt", "Ġ a b\n");
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_tokenizer_file(folder.path()); }), {"merges.txt", "merge 0"}));
  folder.write("merges.txt", "Ġ xx\n");
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_tokenizer_file(folder.path()); }), {"merge 0", "xx"}));
}

TEST(TokenizerFile, SaysWhatItDoesNotRead) {
  EXPECT_TRUE(contains(error_text<DataError>([] { read_tokenizer_file("/none/tokenizer.json"); }),
                       {"/none/tokenizer.json", "data.tokenizer_file must name"}));
  const Json good = Json::parse(test::tokenizer_cases()[1].json);
  const auto error = [&](const char* place, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(place)] = value;
    return error_text<DataError>([&] { parse_tokenizer_json(bad.dump(), "\"t.json\""); });
  };
  EXPECT_TRUE(contains(error("/normalizer", {{"type", "NFC"}}), {"t.json", "NFC", "null"}));
  EXPECT_TRUE(contains(error("/model/type", "Unigram"), {"Unigram", "\"BPE\""}));
  for (const char* key : {"byte_fallback", "fuse_unk"}) {
    EXPECT_TRUE(contains(error((std::string("/model/") + key).c_str(), true), {key, "true"}));
  }
  EXPECT_TRUE(contains(error("/model/dropout", 0.1), {"dropout", "0.1"}));
  EXPECT_TRUE(contains(error("/model/continuing_subword_prefix", "##"), {"continuing_subword_prefix", "##"}));
  EXPECT_TRUE(contains(error("/decoder/type", "Metaspace"), {"Metaspace", "ByteLevel"}));
  EXPECT_TRUE(contains(error("/pre_tokenizer", {{"type", "Whitespace"}}), {"Whitespace", "ByteLevel"}));
  EXPECT_TRUE(contains(error("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), {"Removed", "Isolated"}));
  EXPECT_TRUE(contains(error("/pre_tokenizer/pretokenizers/0/invert", true), {"invert"}));
  EXPECT_TRUE(contains(error("/pre_tokenizer/pretokenizers/1/add_prefix_space", true), {"add_prefix_space"}));
  EXPECT_TRUE(contains(error("/pre_tokenizer/pretokenizers", Json::array()), {"no ByteLevel"}));
  EXPECT_TRUE(contains(error("/model/vocab/zzz", 9999), {"zzz", "9999", "without gaps"}));
  EXPECT_TRUE(contains(error("/model/vocab/zzz", 5), {"id 5 twice"}));
  EXPECT_TRUE(contains(error("/model/vocab/zzz", -1), {"zzz"}));
  EXPECT_TRUE(contains(error("/added_tokens/0/id", 77), {"<|endoftext|>", "77"}));
  EXPECT_TRUE(contains(error("/model/merges/0", "a"), {"merge 0"}));
}

TEST(TokenizerJson, IsTheFileThatWasRead) {
  for (const test::TokenizerCase& one : test::tokenizer_cases()) {
    const ByteLevelBpeParts parts = parse_tokenizer_json(one.json, one.name);
    EXPECT_TRUE(parse_tokenizer_json(tokenizer_json(ByteLevelBpe(parts, false)), "again") == parts) << one.name;
  }
}

// As in files that add runs of spaces to GPT-2's vocabulary.
TEST(TokenizerJson, KeepsATokenThatIsAddedAndOrdinary) {
  ByteLevelBpeParts parts;
  parts.pieces = byte_pieces();
  parts.pieces.insert(parts.pieces.end(), {"  ", "  "});
  parts.merges = {{' ', ' '}};
  parts.added = {{257, false}};
  parts.patterns = {kGpt2Pattern};
  EXPECT_EQ(parse_tokenizer_json(tokenizer_json(ByteLevelBpe(parts, false)), "\"t.json\""), parts);
}

TEST(TokenizerJson, ListsAllTokensOfEveryKind) {
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const bool end : {false, true}) {
    all.push_back(std::make_unique<CharTokenizer>(std::vector<char32_t>{U'a', U'é'}, end));
    all.push_back(std::make_unique<ByteTokenizer>(end));
    all.push_back(std::make_unique<BpeTokenizer>(std::vector<std::string>{"ab", " a", "aab", "a\n"}, end));
    all.push_back(std::make_unique<ByteLevelBpe>(parse_tokenizer_json(test::tokenizer_cases()[0].json, "a"), end));
  }
  for (const auto& tokenizer : all) {
    const Json json = Json::parse(tokenizer_json(*tokenizer));
    std::vector<bool> there(tokenizer->vocab_size());
    for (const auto& [name, id] : json["model"]["vocab"].items()) there.at(id.get<size_t>()) = true;
    for (const auto& added : json["added_tokens"]) there.at(added["id"].get<size_t>()) = true;
    EXPECT_EQ(std::count(there.begin(), there.end(), false), 0);
    EXPECT_EQ(Json::parse(tokenizer_config_json(*tokenizer, 64))["model_max_length"], 64);
  }
  const Json merges = Json::parse(tokenizer_json(*all[2]))["model"]["merges"];
  EXPECT_EQ(merges, Json::parse(R"([["a","b"],["Ġ","a"],["a","ab"],["a","Ċ"]])"));
}

TEST(TokenizerFile, PreparesATokenFile) {
  const ScratchFolder folder;
  const test::TokenizerCase one = test::tokenizer_cases()[0];
  PrepareConfig config;
  config.text_path = folder.write("text.txt", test::tokenizer_case_texts()[1]);
  config.output_path = folder.path("tokens.h5");
  config.tokenizer = TokenizerKind::file;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { prepare_token_file(config); }), {"data.tokenizer_file is empty"}));
  config.tokenizer_file = folder.write("tokenizer.json", one.json);
  prepare_token_file(config);
  const TokenFile file(config.output_path);
  std::vector<int32_t> ids(file.size());
  file.read(0, ids);
  EXPECT_EQ(ids, one.ids[1]);
  EXPECT_NE(describe_token_file(config.output_path).find("tokenizer     file, 456 entries"), std::string::npos);
}

}  // namespace
}  // namespace heed::data
