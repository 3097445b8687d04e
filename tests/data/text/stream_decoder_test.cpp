#include "data/text/tokenizer.hpp"

#include <gtest/gtest.h>

#include "autograd/core/check.hpp"
#include "data/io/utf8.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

std::vector<std::string> push_bytes(StreamDecoder& decoder, std::string_view bytes) {
  std::vector<std::string> out;
  for (const char c : bytes) out.push_back(decoder.push(static_cast<uint8_t>(c)));
  return out;
}

TEST(StreamDecoder, HoldsBackACharacterUntilItIsWhole) {
  const ByteTokenizer tokenizer(false);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(push_bytes(decoder, "\xF0\x9F\x98\x80"), (std::vector<std::string>{"", "", "", "\xF0\x9F\x98\x80"}));
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(push_bytes(decoder, "aé"), (std::vector<std::string>{"a", "", "é"}));
}

TEST(StreamDecoder, ShowsOneReplacementForACharacterThatIsNeverFinished) {
  const ByteTokenizer tokenizer(false);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(push_bytes(decoder, "\xF0\x9F\x98"), (std::vector<std::string>{"", "", ""}));
  EXPECT_EQ(decoder.finish(), kReplacement);
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ShowsOneReplacementForEachStrayByteOrBrokenCharacter) {
  const ByteTokenizer tokenizer(false);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(push_bytes(decoder, "a\x92z"), (std::vector<std::string>{"a", kReplacement, "z"}));
  EXPECT_EQ(push_bytes(decoder, "\xE2\x82z"), (std::vector<std::string>{"", "", kReplacement + "z"}));
  EXPECT_EQ(push_bytes(decoder, "\xE2\xE2\x82\xAC"), (std::vector<std::string>{"", kReplacement, "", "€"}));
}

TEST(StreamDecoder, TakesTokensThatBeginAndEndInsideCharacters) {
  const BpeTokenizer tokenizer({"\xC3\xA9", "\xA9\xC3", "\xA9\xC3\xA9"}, false);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.push(257), "é");
  EXPECT_EQ(decoder.push(258), "éé");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, GivesAllOfAValidTextAndOnlyWholeCharacters) {
  const std::string text = test::mixed_scripts(20'000);
  const ByteTokenizer tokenizer(false);
  StreamDecoder decoder(tokenizer);
  std::string joined;
  for (const std::string& piece : push_bytes(decoder, text)) {
    for (std::string_view rest = piece; !rest.empty();) {
      const Utf8Step step = next_character(rest);
      ASSERT_EQ(step.status, Utf8Status::valid);
      rest.remove_prefix(step.length);
    }
    joined += piece;
  }
  EXPECT_EQ(joined + decoder.finish(), text);
}

TEST(StreamDecoder, RefusesIdsOutsideTheVocabulary) {
  const ByteTokenizer tokenizer(false);
  StreamDecoder decoder(tokenizer);
  EXPECT_THROW(decoder.push(256), ValueError);
}

}  // namespace
}  // namespace heed::data
