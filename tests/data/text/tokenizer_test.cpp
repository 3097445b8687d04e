#include "data/text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "data/text/char_tokenizer.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text;

using Ids = std::vector<int32_t>;

std::vector<std::unique_ptr<Tokenizer>> one_of_each() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const bool has_end_token : {false, true}) {
    all.push_back(std::make_unique<CharTokenizer>(std::vector<char32_t>{U'a', U'b', U'é', U'語', U'😀'}, has_end_token));
    all.push_back(std::make_unique<ByteTokenizer>(has_end_token));
    all.push_back(
        std::make_unique<BpeTokenizer>(std::vector<std::string>{"ab", "abab", "\xC3\xA9", " a"}, has_end_token));
  }
  return all;
}

TEST(CharTokenizer, GivesIdsByRisingCodePoint) {
  const CharTokenizer tokenizer({U'a', U'é', U'語', U'😀'}, false);
  EXPECT_EQ(tokenizer.vocab_size(), 4);
  EXPECT_EQ(tokenizer.encode("😀aé語"), (Ids{3, 0, 1, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 0, 1, 2}), "😀aé語");
  EXPECT_EQ(tokenizer.end_token(), std::nullopt);
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(CharTokenizer, NamesTheUnknownCharacterAndItsPosition) {
  const CharTokenizer tokenizer({U'a', U'b', U'c', U'd'}, false);
  EXPECT_TRUE(contains(error_text<DataError>([&] { tokenizer.encode("a?b"); }),
                       {"'?'", "U+003F", "position 1 ", "4 characters", "leave it out"}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { tokenizer.encode("abcdéa"); }), {"'é'", "position 4 "}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { tokenizer.encode("ab\ncd"); }), {"U+000A", "position 2 "}));
  EXPECT_EQ(tokenizer.encode("a?b\nécd", Unknown::skip), (Ids{0, 1, 2, 3}));
  EXPECT_TRUE(tokenizer.encode("???", Unknown::skip).empty());
}

TEST(CharTokenizer, RefusesWhatIsNotUtf8AndNamesByteAndOffset) {
  const CharTokenizer tokenizer({U'a', U'b'}, false);
  for (const Unknown unknown : {Unknown::refuse, Unknown::skip}) {
    EXPECT_TRUE(contains(error_text<DataError>([&] {
                           tokenizer.encode(
                               "ab\x92"
                               "ab",
                               unknown);
                         }),
                         {"0x92", "offset 2 "}));
    EXPECT_TRUE(
        contains(error_text<DataError>([&] { tokenizer.encode("ab\xE2\x82", unknown); }), {"0xe2", "offset 2 "}));
  }
}

TEST(CharTokenizer, RefusesACharacterSetThatIsNone) {
  EXPECT_THROW(CharTokenizer({}, false), ValueError);
  EXPECT_THROW(CharTokenizer({U'b', U'a'}, false), ValueError);
  EXPECT_THROW(CharTokenizer({U'a', U'a'}, false), ValueError);
  EXPECT_THROW(CharTokenizer({0xD800}, false), ValueError);
  EXPECT_THROW(CharTokenizer({U'\n', U'a'}, true), ValueError);
  EXPECT_EQ(CharTokenizer({}, true).encode("\n\n"), (Ids{0, 0}));
}

TEST(CharacterSet, IsTheSameHoweverTheTextIsCut) {
  const std::string text = "zé語😀é a\n";
  CharacterSet whole;
  whole.add(text);
  EXPECT_EQ(whole.finish(), (std::vector<char32_t>{U'\n', U' ', U'a', U'z', U'é', U'語', U'😀'}));
  CharacterSet bytes;
  for (const char c : text) bytes.add({&c, 1});
  EXPECT_EQ(bytes.finish(), whole.finish());
}

TEST(CharacterSet, CountsTheOffsetOverAllPieces) {
  CharacterSet characters;
  characters.add("aé");
  characters.add("\xE2");
  EXPECT_TRUE(contains(error_text<DataError>([&] { characters.finish(); }), {"0xe2", "offset 3 "}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { characters.add("x"); }), {"0xe2", "offset 3 "}));
}

TEST(ByteTokenizer, IsTheBytes) {
  const ByteTokenizer tokenizer(false);
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Ids ids = tokenizer.encode(all);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[byte], byte);
  EXPECT_EQ(tokenizer.decode(ids), all);
}

TEST(Tokenizer, TheEndTokenIsTheLineFeedAndTheLastId) {
  for (const auto& tokenizer : one_of_each()) {
    const Ids ids = tokenizer->encode("ab", Unknown::skip);
    if (!tokenizer->end_token()) continue;
    const auto end = static_cast<int32_t>(tokenizer->vocab_size()) - 1;
    EXPECT_EQ(tokenizer->end_token(), end);
    EXPECT_EQ(tokenizer->start_token(), end);
    Ids expected = ids;
    expected.push_back(end);
    expected.push_back(end);
    expected.insert(expected.end(), ids.begin(), ids.end());
    EXPECT_EQ(tokenizer->encode("ab\n\nab"), expected);
    EXPECT_EQ(tokenizer->decode(expected), "ab\n\nab");
  }
}

TEST(Tokenizer, WithoutAnEndTokenTextStartsAfterALineFeedWhereThereIsOne) {
  EXPECT_EQ(CharTokenizer({U'a', U'b', U'c', U'd'}, false).start_token(), 0);
  EXPECT_EQ(CharTokenizer({U'\t', U'\n', U'a'}, false).start_token(), 1);
  EXPECT_EQ(ByteTokenizer(false).start_token(), '\n');
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  for (const auto& tokenizer : one_of_each()) {
    EXPECT_THROW(tokenizer->bytes(-1), ValueError);
    EXPECT_THROW(tokenizer->decode(Ids{0, static_cast<int32_t>(tokenizer->vocab_size())}), ValueError);
  }
}

TEST(Tokenizer, ASafeCutChangesNothing) {
  const std::string text = "ab abab é語😀\n\nab ab" + std::string(600, 'a') + " 語";
  for (const auto& tokenizer : one_of_each()) {
    const Ids whole = tokenizer->encode(text, Unknown::skip);
    for (size_t end = 0; end <= text.size(); ++end) {
      const int64_t cut = tokenizer->safe_cut(std::string_view(text).substr(0, end));
      ASSERT_LE(cut, static_cast<int64_t>(end));
      ASSERT_LE(static_cast<int64_t>(end) - cut, 255);
      Ids joined = tokenizer->encode(std::string_view(text).substr(0, cut), Unknown::skip);
      const Ids rest = tokenizer->encode(std::string_view(text).substr(cut), Unknown::skip);
      joined.insert(joined.end(), rest.begin(), rest.end());
      ASSERT_EQ(joined, whole) << tokenizer_name(tokenizer->kind()) << " at " << end;
    }
  }
}

TEST(Tokenizer, ComesBackFromItsBytes) {
  for (const auto& tokenizer : one_of_each()) {
    const std::string bytes = tokenizer->serialize();
    const std::unique_ptr<Tokenizer> again = Tokenizer::parse(bytes);
    EXPECT_EQ(again->kind(), tokenizer->kind());
    EXPECT_EQ(again->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(again->end_token(), tokenizer->end_token());
    EXPECT_EQ(again->serialize(), bytes);
    EXPECT_EQ(again->encode("ababé", Unknown::skip), tokenizer->encode("ababé", Unknown::skip));
  }
}

TEST(Tokenizer, RefusesDamagedBytes) {
  for (const auto& tokenizer : one_of_each()) {
    const std::string bytes = tokenizer->serialize();
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(Tokenizer::parse(bytes.substr(0, length)), DataError);
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
      EXPECT_THROW(Tokenizer::parse(damaged), DataError) << i;
    }
    EXPECT_THROW(Tokenizer::parse(bytes + "x"), DataError);
  }
}

// As above with a checksum that fits, so that each table is judged by itself: DataError, or a tokenizer that is just
// these bytes.
TEST(Tokenizer, RefusesTablesThatMakeNoSense) {
  int64_t refused = 0, taken = 0;
  for (const auto& tokenizer : one_of_each()) {
    const std::string bytes = tokenizer->serialize();
    for (size_t i = 0; i + 8 < bytes.size(); ++i) {
      for (const int value : {0, 1, 2, 10, 127, 128, 255}) {
        std::string changed = bytes.substr(0, bytes.size() - 8);
        changed[i] = static_cast<char>(value);
        const uint64_t sum = checksum(changed);
        changed.append(reinterpret_cast<const char*>(&sum), 8);
        try {
          EXPECT_EQ(Tokenizer::parse(changed)->serialize(), changed);
          ++taken;
        } catch (const DataError&) {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 10);
}

}  // namespace
}  // namespace heed::data
