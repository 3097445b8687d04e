#include "data/fingerprint.hpp"

#include <gtest/gtest.h>

#include "data/prepare.hpp"
#include "data/text_dataset.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::ScratchFolder;

// Longer than the 64 pieces of 4096 tokens that earlier versions summed.
std::string long_text() {
  std::string text;
  for (int64_t i = 0; i < 400'000; ++i) text += static_cast<char>('a' + i * 7919 % 1013 % 26);
  return text;
}

std::string names() {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "emma\nolivia\n\nava\n";
  return text;
}

std::unique_ptr<Dataset> text_dataset(const std::string& path, TextSplit split = TextSplit::position,
                                      uint32_t seed = 1) {
  TextConfig config;
  config.path = path;
  config.split = split;
  config.seed = seed;
  config.seq_len = 8;
  return make_text_dataset(config);
}

std::unique_ptr<Dataset> token_dataset(const ScratchFolder& folder, const std::string& name, const std::string& text,
                                       double val_fraction = 0.1) {
  PrepareConfig config;
  config.text_path = folder.write(name + ".txt", text);
  config.output_path = folder.path(name + ".h5");
  config.val_fraction = val_fraction;
  prepare_token_file(config);
  return make_token_dataset({config.output_path, 1, 8});
}

TEST(Fingerprint, IsThatOfTheTextAlsoForATokenFile) {
  const ScratchFolder folder;
  const auto from_tokens = token_dataset(folder, "text", long_text());
  const auto from_text = text_dataset(folder.path("text.txt"));
  EXPECT_EQ(from_tokens->fingerprint(), from_text->fingerprint());
  EXPECT_EQ(from_text->fingerprint(),
            "400000 tokens, split 360000/40000/0, XXH64 of all tokens 37f09d87333a44a0, of the tokenizer "
            "0cf2b5501f093595");
  EXPECT_TRUE(from_tokens->matches_fingerprint(from_text->fingerprint()));
}

TEST(Fingerprint, SeesEveryTokenTheSplitAndTheTokenizer) {
  const ScratchFolder folder;
  const auto source = token_dataset(folder, "text", long_text());
  // 4096 tokens of each 6283 were summed by earlier versions, from 0 on: 5000 lies between the pieces.
  for (const size_t place : {size_t{5000}, size_t{0}, size_t{399'999}}) {
    std::string changed = long_text();
    changed[place] = changed[place] == 'q' ? 'r' : 'q';
    EXPECT_FALSE(source->matches_fingerprint(token_dataset(folder, std::to_string(place), changed)->fingerprint()))
        << place;
    EXPECT_FALSE(text_dataset(folder.path(std::to_string(place) + ".txt"))->matches_fingerprint(source->fingerprint()))
        << place;
  }
  EXPECT_FALSE(source->matches_fingerprint(token_dataset(folder, "split", long_text(), 0.2)->fingerprint()));
  std::string capitals = long_text();  // the same ids, of other characters
  for (char& c : capitals) c = static_cast<char>(c - 'a' + 'A');
  EXPECT_FALSE(source->matches_fingerprint(token_dataset(folder, "capitals", capitals)->fingerprint()));
}

TEST(Fingerprint, OfLinesKnowsTheirOrder) {
  const ScratchFolder folder;
  const std::string path = folder.write("names.txt", names());
  const auto source = text_dataset(path, TextSplit::lines);
  EXPECT_TRUE(source->matches_fingerprint(text_dataset(path, TextSplit::lines)->fingerprint()));
  EXPECT_NE(source->fingerprint().find("split 36/4/0 lines in the order of seed 1,"), std::string::npos)
      << source->fingerprint();
  EXPECT_FALSE(source->matches_fingerprint(text_dataset(path, TextSplit::lines, 2)->fingerprint()));
}

// What checkpoints of earlier versions hold.
TEST(Fingerprint, StillKnowsTheFormOfEarlierVersions) {
  const ScratchFolder folder;
  const char* of_long_text = "400000 tokens, split 360000/40000/0, checksum 768ab06319a38276";
  const auto from_tokens = token_dataset(folder, "text", long_text());
  EXPECT_TRUE(from_tokens->matches_fingerprint(of_long_text));
  EXPECT_TRUE(text_dataset(folder.path("text.txt"))->matches_fingerprint(of_long_text));
  EXPECT_FALSE(from_tokens->matches_fingerprint("400000 tokens, split 360000/40000/0, checksum 768ab06319a38277"));
  EXPECT_FALSE(from_tokens->matches_fingerprint("400000 tokens, split 360001/39999/0, checksum 768ab06319a38276"));
  EXPECT_FALSE(from_tokens->matches_fingerprint(""));
  const std::string path = folder.write("names.txt", names());
  EXPECT_TRUE(text_dataset(path)->matches_fingerprint("170 tokens, split 153/17/0, checksum 2a509e47639995f0"));
  EXPECT_TRUE(
      text_dataset(path, TextSplit::lines)->matches_fingerprint("171 tokens, split 36/4/0, checksum 50c0e9bde2ab5b7b"));
}

}  // namespace
}  // namespace heed::data
