#include "data/text_dataset.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <numeric>
#include <set>

#include "autograd/core/check.hpp"
#include "data/batch_loader.hpp"
#include "data/position_dataset.hpp"
#include "data/text/char_tokenizer.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::mixed_scripts, test::ScratchFolder;

using Ids = std::vector<int32_t>;

TextConfig char_config(const std::string& path, int64_t seq_len, double val_fraction, double test_fraction = 0) {
  TextConfig config;
  config.path = path;
  config.parts.val_fraction = val_fraction;
  config.parts.test_fraction = test_fraction;
  config.seq_len = seq_len;
  return config;
}

// A dataset over the tokens 0, 1, 2 …
PositionDataset counting_dataset(const SplitSizes& sizes, int64_t seq_len, uint32_t seed = 1) {
  Ids tokens(sizes.total());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::vector<char32_t> characters(sizes.total());
  std::iota(characters.begin(), characters.end(), U'a');
  return PositionDataset({.name = "counting",
                          .tokenizer = std::make_shared<const CharTokenizer>(characters, false),
                          .tokens = std::make_unique<TokenVector>(tokens),
                          .sizes = sizes,
                          .seed = seed},
                         seq_len);
}

TEST(PositionDataset, TargetsAreTheInputsMovedByOneOnce) {
  const PositionDataset dataset = counting_dataset({200, 50, 30}, 4);
  const BatchLoader loader(dataset, 4, 64);
  for (uint64_t step = 0; step < 20; ++step) {
    const Batch batch = loader.train_batch(step, 0, 64);
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      ASSERT_EQ(batch.targets[i], batch.inputs[i] + 1);
      if (i % 4 > 0) {
        ASSERT_EQ(batch.inputs[i], batch.inputs[i - 1] + 1);
      }
    }
  }
  EXPECT_EQ(loader.eval_batch(Split::train, 0, 1).inputs, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(loader.eval_batch(Split::train, 0, 1).targets, (Ids{1, 2, 3, 4}));
}

TEST(PositionDataset, EveryTrainingSequenceIsDrawnAndNoneThatLeavesTheSplit) {
  const PositionDataset dataset = counting_dataset({12, 9, 9}, 8);  // 4 sequences
  const BatchLoader loader(dataset, 8, 100);
  std::vector<int64_t> counts(5);
  for (uint64_t step = 0; step < 100; ++step) {
    const Batch batch = loader.train_batch(step, 0, 100);
    for (int64_t row = 0; row < 100; ++row) {
      ASSERT_LE(batch.targets[row * 8 + 7], 11);
      ++counts.at(batch.inputs[row * 8]);
    }
  }
  // 10,000 draws of 4: 2500 each, standard deviation 43.
  for (int start = 0; start < 4; ++start) EXPECT_LT(std::abs(counts[start] - 2500), 5 * 43) << start;
}

TEST(PositionDataset, ASequenceIsAPureFunctionOfSeedStepAndRow) {
  const PositionDataset dataset = counting_dataset({2000, 50, 0}, 16), same = counting_dataset({2000, 50, 0}, 16);
  const PositionDataset other_seed = counting_dataset({2000, 50, 0}, 16, 2);
  const BatchLoader loader(dataset, 16, 32);
  const Batch whole = loader.train_batch(7, 0, 32);
  for (int64_t row = 31; row >= 0; --row) {
    const Batch alone = BatchLoader(same, 16, 32).train_batch(7, row, 1);
    EXPECT_TRUE(std::equal(alone.inputs.begin(), alone.inputs.end(), whole.inputs.begin() + row * 16));
  }
  EXPECT_NE(BatchLoader(other_seed, 16, 32).train_batch(7, 0, 32).inputs, whole.inputs);
  EXPECT_NE(loader.train_batch(8, 0, 32).inputs, whole.inputs);
  std::set<int32_t> starts;
  for (int64_t row = 0; row < 32; ++row) starts.insert(whole.inputs[row * 16]);
  EXPECT_GT(starts.size(), 25u);
}

TEST(PositionDataset, EvaluationTakesEveryTargetOfTheSplitOnce) {
  for (int64_t size = 9; size < 60; ++size) {
    const PositionDataset dataset = counting_dataset({20, size, 11}, 8);
    for (const auto& [split, begin, count] : {std::tuple(Split::train, int64_t{0}, int64_t{20}),
                                              {Split::validation, 20, size},
                                              {Split::test, 20 + size, 11}}) {
      Ids targets;
      const int64_t sequences = dataset.num_eval_sequences(split, 8);
      EXPECT_EQ(sequences, (count - 1 + 7) / 8);
      for (int64_t sequence = 0; sequence < sequences; ++sequence) {
        Ids inputs(8), outputs(8);
        dataset.eval_sequence(split, sequence, inputs, outputs);
        for (int64_t i = 0; i < 8; ++i) {
          if (outputs[i] == kIgnoreTarget) {
            EXPECT_EQ(inputs[i], 0);
            EXPECT_EQ(sequence, sequences - 1);
            continue;
          }
          EXPECT_EQ(inputs[i] + 1, outputs[i]);
          targets.push_back(outputs[i]);
        }
      }
      Ids expected(count - 1);
      std::iota(expected.begin(), expected.end(), static_cast<int32_t>(begin) + 1);
      EXPECT_EQ(targets, expected);
    }
  }
}

TEST(PositionDataset, RefusesSequencesThatAreNotThere) {
  const PositionDataset dataset = counting_dataset({20, 10, 0}, 8);
  Ids inputs(8), targets(8), long_inputs(20), long_targets(20);
  EXPECT_THROW(dataset.train_sequence(0, -1, inputs, targets), ValueError);
  EXPECT_THROW(dataset.train_sequence(0, 0, long_inputs, long_targets), ValueError);
  EXPECT_THROW(dataset.eval_sequence(Split::validation, 2, inputs, targets), ValueError);
  EXPECT_THROW(dataset.eval_sequence(Split::validation, -1, inputs, targets), ValueError);
  EXPECT_THROW(dataset.eval_sequence(Split::test, 0, inputs, targets), ValueError);
  EXPECT_EQ(dataset.num_eval_sequences(Split::test, 8), 0);
  EXPECT_THROW(dataset.num_eval_sequences(Split::validation, 0), ValueError);
  EXPECT_THROW(dataset.train_sequence(0, 0, inputs, long_targets), ShapeError);
}

TEST(TextDataset, ReadsATextAndKnowsItsTokenizer) {
  const ScratchFolder folder;
  const std::string text = "hello wörld, this is a text of characters\n";
  const auto dataset = make_text_dataset(char_config(folder.write("text.txt", text), 4, 0.25, 0.25));
  ASSERT_NE(dataset->tokenizer(), nullptr);
  EXPECT_EQ(dataset->tokenizer()->kind(), TokenizerKind::character);
  EXPECT_EQ(dataset->tokenizer()->end_token(), std::nullopt);
  EXPECT_EQ(dataset->vocab_size(), dataset->tokenizer()->vocab_size());
  Ids inputs(4), targets(4);
  dataset->eval_sequence(Split::train, 1, inputs, targets);
  EXPECT_EQ(dataset->tokenizer()->decode(inputs), "o wö");
  EXPECT_EQ(dataset->tokenizer()->decode(targets), " wör");
}

TEST(TextDataset, KnowsACharacterThatOnlyTheLastSplitHas) {
  const ScratchFolder folder;
  const std::string path = folder.write("text.txt", std::string(90, 'a') + "zzzzzzzzzz");
  const auto dataset = make_text_dataset(char_config(path, 4, 0.1));
  EXPECT_EQ(dataset->vocab_size(), 2);
  Ids inputs(4), targets(4);
  dataset->eval_sequence(Split::validation, 0, inputs, targets);
  EXPECT_EQ(dataset->tokenizer()->decode(inputs), "zzzz");
}

TEST(TextDataset, ALongTextComesOutWholeWhereverItsPiecesEnd) {
  const ScratchFolder folder;
  const std::string text = mixed_scripts(9'000'000);  // more than two pieces
  const std::string path = folder.write("text.txt", text);
  TextConfig config = char_config(path, 1000, 0.1);
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte}) {
    config.tokenizer = kind;
    const auto dataset = make_text_dataset(config);
    std::string decoded(dataset->tokenizer()->bytes(dataset->tokenizer()->encode(text.substr(0, 4))[0]));
    int64_t num_sequences = 0;
    for (const Split split : {Split::train, Split::validation}) {
      Ids inputs(1000), targets(1000);
      for (int64_t sequence = 0; sequence < dataset->num_eval_sequences(split, 1000); ++sequence) {
        dataset->eval_sequence(split, sequence, inputs, targets);
        if (split == Split::validation && sequence == 0) decoded += dataset->tokenizer()->bytes(inputs[0]);
        std::erase(targets, kIgnoreTarget);
        decoded += dataset->tokenizer()->decode(targets);
        ++num_sequences;
      }
    }
    EXPECT_GT(num_sequences, 3000);
    std::string expected = text;
    if (kind != TokenizerKind::byte) std::erase(expected, '\r');  // each is before a line feed
    EXPECT_TRUE(decoded == expected);
  }
}

TEST(TextDataset, RunsOnTheShortestTextThatHasASequenceInEachSplit) {
  const ScratchFolder folder;
  const auto dataset = make_text_dataset(char_config(folder.write("text.txt", "abcdefghijklmnopqr"), 8, 0.5));
  const BatchLoader loader(*dataset, 8, 5);
  const Batch batch = loader.train_batch(3, 0, 5);
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_TRUE(std::equal(batch.inputs.begin(), batch.inputs.begin() + 8, batch.inputs.begin() + row * 8));
    EXPECT_EQ(batch.inputs[row * 8], 0);
  }
  ASSERT_EQ(loader.num_eval_sequences(Split::validation), 1);
  EXPECT_EQ(loader.eval_batch(Split::validation, 0, 1).targets, (Ids{10, 11, 12, 13, 14, 15, 16, 17}));
}

TEST(TextDataset, RefusesATextThatIsTooShortBeforeTheFirstStep) {
  const ScratchFolder folder;
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::bpe}) {
    for (const int length : {0, 1, 2, 8, 17}) {
      if (kind == TokenizerKind::bpe && length > 0) continue;
      TextConfig config = char_config(folder.write("text.txt", std::string(length, 'a')), 8, 0.5);
      config.tokenizer = kind;
      config.vocab_size = 300;
      EXPECT_TRUE(contains(error_text<DataError>([&] { make_text_dataset(config); }),
                           {"\"" + folder.path("text.txt") + "\"", std::to_string(length) + " tokens", "at least 9",
                            "model.seq_len = 8"}));
    }
  }
}

TEST(TextDataset, RefusesASplitThatIsTooShortBeforeTheFirstStep) {
  const ScratchFolder folder;
  const std::string path = folder.write("text.txt", std::string(1005, 'a'));
  EXPECT_TRUE(contains(error_text<DataError>([&] { make_text_dataset(char_config(path, 8, 0.005)); }),
                       {path, "1005 tokens", "6 of them for validation", "at least 9", "data.val_fraction"}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { make_text_dataset(char_config(path, 8, 0.1, 0.005)); }),
                       {path, "for test", "at least 9", "data.test_fraction"}));
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { make_text_dataset(char_config(path, 8, 0.995)); }), {"for training"}));
  EXPECT_NO_THROW(make_text_dataset(char_config(path, 8, 0.1)));
  EXPECT_THROW(make_text_dataset(char_config(path, 0, 0.1)), ConfigError);
}

TEST(TextDataset, NoValidationWhereNoneIsMeant) {
  const ScratchFolder folder;
  const auto dataset = make_text_dataset(char_config(folder.write("text.txt", std::string(9, 'a')), 8, 0));
  EXPECT_EQ(dataset->num_eval_sequences(Split::validation, 8), 0);
  EXPECT_EQ(dataset->num_eval_sequences(Split::test, 8), 0);
}

TEST(TextDataset, NamesTheByteThatIsNotUtf8) {
  const ScratchFolder folder;
  TextConfig config = char_config(folder.write("text.txt",
                                               "ab\x92"
                                               "cd"),
                                  1, 0.4);
  EXPECT_TRUE(contains(error_text<DataError>([&] { make_text_dataset(config); }),
                       {"\"" + folder.path("text.txt") + "\"", "0x92", "offset 2 ", "data.tokenizer"}));
  config.tokenizer = TokenizerKind::byte;
  const auto dataset = make_text_dataset(config);
  Ids inputs(1), targets(1);
  dataset->eval_sequence(Split::train, 1, inputs, targets);
  EXPECT_EQ(dataset->tokenizer()->decode(targets), "\x92");

  std::string long_text(5'000'000, 'a');
  long_text += "\xC3";  // a character that never ends
  EXPECT_TRUE(contains(
      error_text<DataError>([&] { make_text_dataset(char_config(folder.write("long.txt", long_text), 8, 0.1)); }),
      {"0xc3", "offset 5000000 "}));
}

TEST(TextDataset, RefusesAPathThatIsNoTextFile) {
  const ScratchFolder folder;
  const auto text_of = [](const std::string& path) {
    return error_text<DataError>([&] { make_text_dataset(char_config(path, 8, 0.1)); });
  };
  EXPECT_TRUE(contains(text_of(folder.path("none.txt")), {"\"" + folder.path("none.txt") + "\"", "data.path"}));
  EXPECT_TRUE(contains(text_of(folder.path()), {"folder", "data.path"}));
  folder.write("file", "text");
  EXPECT_TRUE(contains(text_of(folder.path("file/text.txt")), {folder.path("file/text.txt"), "data.path"}));
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(contains(text_of(folder.path("pipe")), {"pipe", "data.path"}));
  ASSERT_EQ(symlink("loop", folder.path("loop").c_str()), 0);
  EXPECT_TRUE(contains(text_of(folder.path("loop")), {"loop", "data.path"}));
  EXPECT_TRUE(contains(text_of("/dev/null"), {"/dev/null", "data.path"}));
  EXPECT_TRUE(contains(text_of(""), {"data.path"}));
  EXPECT_TRUE(contains(text_of("a\nb"), {"a\\u000Ab"}));
  EXPECT_TRUE(contains(text_of("none.txt"), {"\"/"}));  // absolute, though it was given relative
}

TEST(TextDataset, RefusesLineCountsWithoutLines) {
  const ScratchFolder folder;
  TextConfig config = char_config(folder.write("text.txt", std::string(100, 'a')), 8, 0.1);
  config.parts.val_lines = 10;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { make_text_dataset(config); }), {"data.val_lines", "data.split"}));
}

}  // namespace
}  // namespace heed::data
