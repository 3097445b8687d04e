#include "data/io/utf8.hpp"

#include <gtest/gtest.h>

#include "autograd/core/check.hpp"
#include "data/io/quoted_start.hpp"

namespace heed::data {
namespace {

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (0xD800 <= c && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
    const Utf8Step step = next_character(text + "x");
    ASSERT_EQ(step.status, Utf8Status::valid) << static_cast<uint32_t>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, static_cast<int64_t>(text.size()));
    for (size_t part = 1; part < text.size(); ++part) {
      ASSERT_EQ(next_character(text.substr(0, part)).status, Utf8Status::incomplete);
      ASSERT_EQ(next_character(text.substr(0, part)).length, static_cast<int64_t>(part));
    }
  }
}

// Two bytes decide whether a sequence can go on: all pairs against the ranges of table 3-7, written out here once more.
TEST(Utf8, EveryPairOfBytesIsJudgedAsTheStandardDoes) {
  for (int first = 0x80; first < 0x100; ++first) {
    for (int second = 0; second < 0x100; ++second) {
      const bool trail = 0x80 <= second && second <= 0xBF;
      bool good = false;
      if (0xC2 <= first && first <= 0xDF) good = trail;
      if (first == 0xE0) good = 0xA0 <= second && second <= 0xBF;
      if ((0xE1 <= first && first <= 0xEC) || first == 0xEE || first == 0xEF) good = trail;
      if (first == 0xED) good = 0x80 <= second && second <= 0x9F;
      if (first == 0xF0) good = 0x90 <= second && second <= 0xBF;
      if (0xF1 <= first && first <= 0xF3) good = trail;
      if (first == 0xF4) good = 0x80 <= second && second <= 0x8F;
      const Utf8Step step = next_character(std::string{static_cast<char>(first), static_cast<char>(second)});
      if (!good) {
        ASSERT_EQ(step.status, Utf8Status::invalid) << first << " " << second;
        ASSERT_EQ(step.length, 1);
      } else {
        ASSERT_NE(step.status, Utf8Status::invalid) << first << " " << second;
      }
    }
  }
}

TEST(Utf8, WhatBreaksOffIsAsLongAsItsGoodBeginning) {
  EXPECT_EQ(next_character("\xF0\x9F\x98"
                           "a")
                .length,
            3);
  EXPECT_EQ(next_character("\xE2\x82\xFF").length, 2);
  EXPECT_EQ(next_character("\xFF").length, 1);
  EXPECT_EQ(next_character("\x80\x80").length, 1);
}

TEST(Utf8, RefusesWhatIsNoCharacter) {
  std::string text;
  EXPECT_THROW(append_utf8(text, 0xD800), ValueError);
  EXPECT_THROW(append_utf8(text, 0xDFFF), ValueError);
  EXPECT_THROW(append_utf8(text, 0x110000), ValueError);
  EXPECT_THROW(next_character(""), ValueError);
}

TEST(Utf8, DescribesWithoutControlCharacters) {
  EXPECT_EQ(describe_character(U'?'), "'?' (U+003F)");
  EXPECT_EQ(describe_character(U'é'), "'é' (U+00E9)");
  EXPECT_EQ(describe_character(U'\n'), "U+000A");
  EXPECT_EQ(describe_character(0x9B), "U+009B");
}

TEST(Utf8, NothingThatIsPrintableChangesATerminal) {
  EXPECT_EQ(printable("é 日本 😀 \\ \""), "é 日本 😀 \\ \"");
  EXPECT_EQ(printable("a\x1b[31mb\x7f"), "a\\u001B[31mb\\u007F");
  EXPECT_EQ(printable("\xC2\x9B"), "\\u009B") << "CSI of 8-bit terminals";
  EXPECT_EQ(printable("\xE2\x80\xAE\xE2\x81\xA9"), "\\u202E\\u2069") << "right to left";
  EXPECT_EQ(printable("\xE9t\xE6\x97"), "\\xE9t\\xE6\\x97") << "not UTF-8";
  EXPECT_EQ(printable("a\n\tb\r"), "a\\u000A\\u0009b\\u000D");
  EXPECT_EQ(printable("a\n\tb\r", Layout::keep), "a\n\tb\\u000D");
  EXPECT_EQ(printable(printable("\x1b\xFF")), printable("\x1b\xFF"));
  EXPECT_EQ(printable(""), "");
}

TEST(Utf8, WholeCharactersEndBeforeAnIncompleteOne) {
  EXPECT_EQ(size_of_whole_characters(""), 0u);
  EXPECT_EQ(size_of_whole_characters("a\xE6\x97\xA5"), 4u);
  EXPECT_EQ(size_of_whole_characters("a\xE6\x97"), 1u);
  EXPECT_EQ(size_of_whole_characters("a\xF0\x9F\x98"), 1u);
  EXPECT_EQ(size_of_whole_characters("\xC3"), 0u);
  EXPECT_EQ(size_of_whole_characters("a\xFF\x80"), 3u) << "not UTF-8, and no start of a character";
}

TEST(Utf8, QuotedStartShowsWholeCharacters) {
  const std::string shown(119, 'x');
  EXPECT_EQ(quoted_start(shown + "y"), quoted_text(shown + "y"));
  EXPECT_EQ(quoted_start(shown + "yz"), quoted_text(shown + "y") + " …");
  EXPECT_EQ(quoted_start(shown + "日本"), quoted_text(shown) + " …");
  EXPECT_EQ(quoted_start(shown + "\xFF\xFF"), quoted_text(shown + "\xFF") + " …");
}

TEST(Utf8, QuotedTextEndsAtItsQuote) {
  EXPECT_EQ(quoted_text("a b"), "\"a b\"");
  EXPECT_EQ(quoted_text("a\"b\\"), "\"a\\\"b\\\\\"");
  EXPECT_EQ(quoted_text("\x1b\n"), "\"\\u001B\\u000A\"");
}

}  // namespace
}  // namespace heed::data
