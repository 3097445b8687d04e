#include <gtest/gtest.h>

#include <set>

#include <algorithm>

#include "autograd/core/check.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "data/text/bpe_trainer.hpp"
#include "data/text/text_encoding.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::mixed_scripts, test::ScratchFolder;

using Ids = std::vector<int32_t>;

TEST(BpeTokenizer, MergesTheEarliestPieceFirstAndTheLeftmostOfThese) {
  // 256 "bc", 257 "ab", 258 "abc", 259 "aa"
  const BpeTokenizer tokenizer({"bc", "ab", "abc", "aa"}, false);
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{257}));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{258}));  // a + bc, not ab + c; both make "abc"
  EXPECT_EQ(tokenizer.encode("abbc"), (Ids{257, 256}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Ids{259, 'a'}));
  EXPECT_EQ(tokenizer.encode("aab"), (Ids{'a', 257}));  // "ab" came before "aa"
  EXPECT_EQ(tokenizer.encode("xyz"), (Ids{'x', 'y', 'z'}));
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(BpeTokenizer, NoTokenCrossesAWord) {
  EXPECT_EQ(word_length(" ab cd"), 3);
  EXPECT_EQ(word_length("ab\ncd"), 3);
  EXPECT_EQ(word_length("   x"), 1);
  EXPECT_EQ(word_length("\n"), 1);
  EXPECT_EQ(word_length(std::string(1000, 'a')), BpeTokenizer::kMaxWordBytes);
  const BpeTokenizer tokenizer({"a ", "\na", "a\n"}, false);
  EXPECT_EQ(tokenizer.encode("a a\na"), (Ids{'a', ' ', 258, 'a'}));
}

TEST(BpeTokenizer, RefusesPiecesThatNoMergeMakes) {
  EXPECT_THROW(BpeTokenizer({"abc"}, false), ValueError);
  EXPECT_THROW(BpeTokenizer({"abc", "ab"}, false), ValueError);  // made later than used
  EXPECT_THROW(BpeTokenizer({"ab", "ab"}, false), ValueError);
  EXPECT_THROW(BpeTokenizer({"a"}, false), ValueError);
  EXPECT_THROW(BpeTokenizer({""}, false), ValueError);
  EXPECT_EQ(BpeTokenizer({}, false).vocab_size(), 256);
}

TEST(WordCounts, CountsWordsAsTheTokenizerCutsThem) {
  WordCounts with_line_feeds, lines;
  with_line_feeds.add("a b\na b a", false);
  lines.add("a b\na b a\n\n", true);
  using Counts = std::unordered_map<std::string, int64_t>;
  EXPECT_EQ(with_line_feeds.words(), (Counts{{"a", 2}, {" b\n", 1}, {" b", 1}, {" a", 1}}));
  EXPECT_EQ(lines.words(), (Counts{{"a", 2}, {" b", 2}, {" a", 1}}));
}

// What bounds the cost of learning from a text without blanks.
TEST(WordCounts, KeepsAnEvenPartOfVeryManyDifferentWords) {
  std::string words;
  std::set<std::string> first_half;
  uint32_t state = 1;
  for (int i = 0; i < 40'000; ++i) {
    for (int j = 0; j < 99; ++j) words += static_cast<char>('a' + ((state = state * 1664525u + 1013904223u) >> 28));
    words += '\n';
    if (i < 20'000) first_half.insert(words.substr(words.size() - 100, 99));
  }
  WordCounts counts;
  for (int i = 0; i < 10; ++i) counts.add("the cat\n", true);
  counts.add(words, true);
  counts.add(words, true);
  EXPECT_EQ(counts.words().at("the"), 10);
  int64_t long_bytes = 0;
  size_t in_first_half = 0, long_words = 0;
  for (const auto& [word, count] : counts.words()) {
    if (word.size() < 99) continue;
    EXPECT_EQ(count, 2);
    long_bytes += static_cast<int64_t>(word.size());
    in_first_half += first_half.count(word);
    ++long_words;
  }
  EXPECT_LE(long_bytes, WordCounts::kMaxLongBytes);
  EXPECT_GT(long_bytes, WordCounts::kMaxLongBytes / 4);
  EXPECT_GT(in_first_half * 9, long_words * 4);  // about a half
  EXPECT_LT(in_first_half * 9, long_words * 5);
}

TEST(BpeTokenizer, KnowsWhichPiecesAreMade) {
  const BpeTokenizer tokenizer({"ab", "bc", "abc"}, false);
  EXPECT_EQ(tokenizer.pieces_made({"abc"}), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(tokenizer.pieces_made({"abx", "bc"}), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(tokenizer.pieces_made({}), (std::vector<bool>{false, false, false}));
}

#ifdef HEED_HAVE_SENTENCEPIECE

std::unique_ptr<Tokenizer> train(const ScratchFolder& folder, const std::string& text, int64_t vocab_size,
                                 bool has_end_token = false) {
  const TextFile file(folder.write("text.txt", text));
  return make_tokenizer(file, {TokenizerKind::bpe, vocab_size, has_end_token});
}

TEST(BpeTraining, MergesTheMostFrequentPairFirst) {
  WordCounts counts;
  for (int i = 0; i < 10; ++i) counts.add("abab cd ", false);
  counts.add("xy", false);
  const std::vector<std::string> merged = train_bpe(counts, 4);
  ASSERT_GE(merged.size(), 2u);
  EXPECT_EQ(merged[0], "ab");  // 20 times
  for (const std::string& piece : merged) EXPECT_NE(piece, "bc");
  EXPECT_EQ(train_bpe(counts, 4), merged);
  EXPECT_TRUE(train_bpe(counts, 0).empty());
  EXPECT_TRUE(train_bpe(WordCounts(), 4).empty());
}

TEST(BpeTraining, TextToTokensToTextIsTheIdentity) {
  const std::string text = mixed_scripts(1'000'000);
  const ScratchFolder folder;
  for (const bool has_end_token : {false, true}) {
    const std::unique_ptr<Tokenizer> tokenizer = train(folder, text, 600, has_end_token);
    EXPECT_EQ(tokenizer->vocab_size(), 600);
    const Ids ids = tokenizer->encode(text);
    EXPECT_TRUE(tokenizer->decode(ids) == text);  // not EXPECT_EQ: it would print a megabyte
    EXPECT_LT(ids.size(), text.size() / 2);
    const std::unique_ptr<Tokenizer> stored = Tokenizer::parse(tokenizer->serialize());
    EXPECT_TRUE(stored->encode(text) == ids);
  }
}

TEST(BpeTraining, MostPiecesAreUsed) {
  const std::vector<std::string> syllables = {"ba", "ko", "ri", "sul", "ten", "a", "mo", "vi", "dre", "in", "u", "pal"};
  std::string text;
  uint32_t state = 1;
  while (text.size() < 200'000) {
    state = state * 1664525u + 1013904223u;
    text += syllables[(state >> 20) % syllables.size()];
    if ((state >> 16) % 3 == 0) text += ' ';
  }
  const ScratchFolder folder;
  const std::unique_ptr<Tokenizer> tokenizer = train(folder, text, 400);
  std::vector<int64_t> counts(tokenizer->vocab_size());
  const Ids ids = tokenizer->encode(text);
  for (const int32_t id : ids) ++counts[id];
  // A piece that was merged on into longer ones may have none left.
  EXPECT_GT(std::count_if(counts.begin() + 256, counts.end(), [](int64_t count) { return count > 0; }), 144 / 2);
  EXPECT_LT(ids.size(), text.size() / 3);
}

TEST(BpeTraining, BytesThatAreNotUtf8AreTextToo) {
  const ScratchFolder folder;
  const std::string stray =
      "ab\x92"
      "cd";
  const std::unique_ptr<Tokenizer> tokenizer = train(folder, stray, 257);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(stray)), stray);

  std::string noise;
  uint32_t state = 7;
  for (int i = 0; i < 300'000; ++i) noise += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  const std::unique_ptr<Tokenizer> of_noise = train(folder, noise, 300, true);
  EXPECT_TRUE(of_noise->decode(of_noise->encode(noise)) == noise);
  const std::unique_ptr<Tokenizer> of_text = train(folder, mixed_scripts(50'000), 300);
  EXPECT_TRUE(of_text->decode(of_text->encode(noise)) == noise);
}

TEST(BpeTraining, SaysWhatVocabularyIsPossible) {
  const ScratchFolder folder;
  const std::string path = folder.path("text.txt");
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { train(folder, "abcabcabc", 512); }),
                       {"data.vocab_size = 512", "\"" + path + "\"", "lower data.vocab_size to 2", "or less"}));
  // Two merges can happen; a third, of b and c, never does.
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { train(folder, "abc", 512); }),
                       {"only 258 entries (256 bytes and 2 merges)", "lower data.vocab_size to 258 or less"}));
  EXPECT_EQ(train(folder, "abc", 258)->vocab_size(), 258);
  EXPECT_EQ(train(folder, "abc", 258)->encode("abc").size(), 1u);
  EXPECT_THROW(train(folder, "abc", 259), ConfigError);
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { train(folder, "a\na\na\n", 512, true); }),
                       {"data.vocab_size = 512", "only 257 entries", "256 bytes and the end of line"}));
  EXPECT_TRUE(
      contains(error_text<ConfigError>([&] { train(folder, "", 300); }), {"data.vocab_size = 300", "only 256"}));
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { train(folder, "abc", 100); }), {"data.vocab_size = 100", "256"}));
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { train(folder, "abc", 256, true); }), {"= 256", "257"}));
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { train(folder, "abc", int64_t{1} << 40); }), {"1099511627776"}));
  EXPECT_EQ(train(folder, "abcabcabc", 256)->vocab_size(), 256);
}

#else

TEST(BpeTraining, SaysWhatToInstall) {
  const ScratchFolder folder;
  const TextFile file(folder.write("text.txt", "some text"));
  EXPECT_FALSE(can_train_bpe());
  EXPECT_TRUE(contains(error_text<ConfigError>([&] {
                         make_tokenizer(file, {TokenizerKind::bpe, 300, false});
                       }),
                       {"data.tokenizer", "SentencePiece", "libsentencepiece-dev"}));
}

#endif

}  // namespace
}  // namespace heed::data
