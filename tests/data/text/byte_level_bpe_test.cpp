#include "data/text/byte_level_bpe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "autograd/core/check.hpp"
#include "data/io/utf8.hpp"
#include "data/text/tokenizer_file.hpp"
#include "tests/data/scratch.hpp"
#include "tests/data/text/tokenizer_cases.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text;

using Ids = std::vector<int32_t>;

// 256 bytes, and these pieces, each with the merge of two earlier ones.
ByteLevelBpeParts parts_of(const std::vector<std::pair<std::string, std::string>>& merges) {
  ByteLevelBpeParts parts;
  parts.pieces = byte_pieces();
  const auto id_of = [&](const std::string& piece) {
    return static_cast<int32_t>(std::find(parts.pieces.begin(), parts.pieces.end(), piece) - parts.pieces.begin());
  };
  for (const auto& [left, right] : merges) {
    parts.merges.emplace_back(id_of(left), id_of(right));
    if (id_of(left + right) == static_cast<int32_t>(parts.pieces.size())) parts.pieces.push_back(left + right);
  }
  return parts;
}

// Texts of everything that a pre-tokenizer treats in its own way, and of bytes that are not UTF-8.
std::string odd_text(std::mt19937& random, int num_parts) {
  const std::vector<std::string> parts = {"a",
                                          "word",
                                          "'s",
                                          "'LL",
                                          " ",
                                          "  ",
                                          "\t",
                                          "\n",
                                          "\r\n",
                                          "\n\n",
                                          "1",
                                          "2024",
                                          "!",
                                          "...",
                                          "é",
                                          "語",
                                          "😀",
                                          "\xFF",
                                          "\xE8",
                                          "\xE8\xAA",
                                          "\x80",
                                          "_",
                                          "é",
                                          "\xC2\xA0",
                                          "\xE1\xA0\x8E",
                                          "\xE2\x80\x83",
                                          "'",
                                          "e\xCC\x81"};
  std::string text;
  for (int i = 0; i < num_parts; ++i) text += parts[random() % parts.size()];
  return text;
}

TEST(ByteLevelBpe, GivesTheIdsOfHuggingFaceAndTheTextBack) {
  const std::vector<std::string> texts = test::tokenizer_case_texts();
  for (const test::TokenizerCase& one : test::tokenizer_cases()) {
    const ByteLevelBpe tokenizer(parse_tokenizer_json(one.json, one.name), false);
    ASSERT_EQ(one.ids.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i]), one.ids[i]) << one.name << ": " << texts[i];
      EXPECT_EQ(tokenizer.decode(one.ids[i]), texts[i]) << one.name;
    }
  }
}

TEST(ByteLevelBpe, CutsATextAnywhereThatItCallsSafe) {
  std::mt19937 random(1);
  std::vector<ByteLevelBpeParts> all;
  for (const test::TokenizerCase& one : test::tokenizer_cases())
    all.push_back(parse_tokenizer_json(one.json, one.name));
  // Looks ahead over any distance, so that many word ends are no safe cuts.
  all.push_back(all.front());
  all.back().patterns = {"a(?=[^!]*!)|[a-z]+(?= )| +|[0-9]+x|[0-9]"};
  all.push_back(all.front());
  all.back().patterns = {"\\s", kGpt2Pattern};
  for (const ByteLevelBpeParts& parts : all) {
    for (const bool has_end_token : {false, true}) {
      const ByteLevelBpe tokenizer(parts, has_end_token);
      int64_t num_cuts = 0;
      for (int round = 0; round < 60; ++round) {
        const std::string text = odd_text(random, 12), more = odd_text(random, 3);
        const Ids whole = tokenizer.encode(text + more);
        EXPECT_EQ(tokenizer.decode(whole), text + more);
        for (size_t end = 0; end <= text.size(); ++end) {
          const int64_t cut = tokenizer.safe_cut(std::string_view(text).substr(0, end));
          ASSERT_LE(cut, static_cast<int64_t>(end));
          num_cuts += cut > 0 ? 1 : 0;
          Ids ids = tokenizer.encode(text.substr(0, cut));
          const Ids rest = tokenizer.encode(text.substr(cut) + more);
          ids.insert(ids.end(), rest.begin(), rest.end());
          ASSERT_EQ(ids, whole) << quoted_text(text) << " and " << quoted_text(more) << " cut at " << cut << " of "
                                << end;
        }
      }
      EXPECT_GT(num_cuts, 300);
    }
  }
}

TEST(ByteLevelBpe, CutsNearTheEnd) {
  const ByteLevelBpe tokenizer(parse_tokenizer_json(test::tokenizer_cases()[1].json, "a"), false);
  EXPECT_EQ(tokenizer.safe_cut("one two three"), 7);
  EXPECT_EQ(tokenizer.safe_cut("one two  "), 7);
  EXPECT_EQ(tokenizer.safe_cut("one two\xE8\xAA"), 3);  // may become a letter
  EXPECT_EQ(tokenizer.safe_cut(""), 0);
}

TEST(ByteLevelBpe, MergesByRankAndTheLeftmostFirst) {
  ByteLevelBpeParts parts = parts_of({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"a", "bc"}});
  const ByteLevelBpe tokenizer(parts, false);
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{259}));
  EXPECT_EQ(tokenizer.encode("abab"), (Ids{257, 257}));
  EXPECT_EQ(tokenizer.encode("aaaaa"), (Ids{258, 258, 'a'}));
  // A token that no merge makes is found only as a whole word.
  parts.pieces.emplace_back("xyz");
  parts.patterns = {" |[a-z]+"};
  EXPECT_EQ(ByteLevelBpe(parts, false).encode("xyz xyza"), (Ids{'x', 'y', 'z', ' ', 'x', 'y', 'z', 'a'}));
  parts.whole_words = true;
  EXPECT_EQ(ByteLevelBpe(parts, false).encode("xyz xyza"), (Ids{260, ' ', 'x', 'y', 'z', 'a'}));
}

TEST(ByteLevelBpe, TakesLongWordsInAMoment) {
  const ByteLevelBpe tokenizer(parts_of({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}), false);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')), Ids((1 << 20) / 8, 258));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(ByteLevelBpe, NeverEncodesAnAddedToken) {
  ByteLevelBpeParts parts = parts_of({});
  parts.pieces.emplace_back("<end>");
  parts.added = {{256, true}};
  parts.end_of_text = 256;
  const ByteLevelBpe tokenizer(parts, false);
  EXPECT_EQ(tokenizer.encode("<end>"), (Ids{'<', 'e', 'n', 'd', '>'}));
  EXPECT_EQ(tokenizer.decode(Ids{256}), "<end>");
  EXPECT_EQ(tokenizer.start_token(), 256);
  EXPECT_EQ(ByteLevelBpe(parts, true).start_token(), 257);
}

TEST(ByteLevelBpe, ComesBackFromItsBytes) {
  for (const test::TokenizerCase& one : test::tokenizer_cases()) {
    const ByteLevelBpeParts parts = parse_tokenizer_json(one.json, one.name);
    for (const bool has_end_token : {false, true}) {
      const std::string stored = ByteLevelBpe(parts, has_end_token).serialize();
      EXPECT_TRUE(stored.starts_with("heedtok3"));
      const std::unique_ptr<Tokenizer> again = Tokenizer::parse(stored);
      EXPECT_TRUE(dynamic_cast<const ByteLevelBpe&>(*again).parts() == parts);
      EXPECT_EQ(again->end_token().has_value(), has_end_token);
      for (size_t place = 0; place < stored.size(); place += 97) {
        std::string damaged = stored;
        damaged[place] = static_cast<char>(damaged[place] ^ 1);
        EXPECT_THROW(Tokenizer::parse(damaged), DataError);
      }
    }
  }
}

TEST(ByteLevelBpe, RefusesWhatIsNoTokenizer) {
  const auto error = [](const auto& change) {
    ByteLevelBpeParts parts = parts_of({{"a", "b"}});
    change(parts);
    return error_text<DataError>([&] { ByteLevelBpe(parts, false); });
  };
  EXPECT_TRUE(contains(error([](auto& p) { p.pieces[7] = "77"; }), {"byte 0x07"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.pieces.push_back("ab"); }), {"token 257", "twice"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.pieces.push_back(""); }), {"token 257 has 0 bytes", "1 to 255"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.merges.emplace_back(1, 2); }), {"merge 1", "no token"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.merges.emplace_back(1, 999); }), {"merge 1", "999"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.merges.emplace_back('a', 'b'); }), {"merge 1", "twice"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.added = {{999, true}}; }), {"added token 999"}));
  EXPECT_TRUE(contains(error([](auto& p) { p.end_of_text = 3; }), {"token 3", "not an added token"}));
}

TEST(WordPattern, RefusesWhatOtherEnginesReadDifferently) {
  for (const char* source : {"a.b", "^a", "a$", "\\w+", "\\h", "(?<=a)b", "(a)\\1", "(?R)a", "[[:alpha:]]", "[a-z&&b]",
                             "a{,3}b", "a{1,3}+", "\\pL", "(*UCP)a", "(?x) a", "[\\S]", "\\", "a\\Kb"}) {
    EXPECT_TRUE(contains(error_text<DataError>([&] { WordPattern{source}; }), {"which heed does not read", "at byte "}))
        << source;
  }
  EXPECT_TRUE(contains(error_text<DataError>([] { WordPattern{"(a"}; }), {"is not one"}));
  EXPECT_TRUE(contains(error_text<DataError>([] { WordPattern{"\\p{Nothing}"}; }), {"is not one"}));
  EXPECT_TRUE(contains(error_text<DataError>([] { WordPattern{"a*"}; }), {"nothing at all"}));
  EXPECT_TRUE(contains(error_text<DataError>([] { WordPattern{std::string(5000, 'a')}; }), {"5000", "4096"}));
}

TEST(WordPattern, GoesBackOverALongRun) {
  const std::string spaces(30'000'000, ' ');
  const WordPattern pattern("\\s*[\\r\\n]+|\\s+(?!\\S)");
  const WordPattern::Search::Match match = WordPattern::Search(pattern, spaces).next(0);
  EXPECT_EQ(match.begin, 0);
  EXPECT_EQ(match.end, static_cast<int64_t>(spaces.size()));
}

TEST(WordPattern, StopsWhenAMatchTakesTooLong) {
  ByteLevelBpeParts parts = parts_of({});
  parts.patterns = {"(?:a+)+b|(?:a|aa)+c"};
  const ByteLevelBpe tokenizer(parts, false);
  EXPECT_EQ(tokenizer.encode("aab").size(), 3);
  EXPECT_TRUE(contains(error_text<DataError>([&] { tokenizer.encode(std::string(2000, 'a')); }), {"takes too long"}));
}

}  // namespace
}  // namespace heed::data
