#include "data/line_dataset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/core/check.hpp"
#include "data/batch_loader.hpp"
#include "data/text/tokenizer.hpp"
#include "data/text_dataset.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

using Ids = std::vector<int32_t>;

std::unique_ptr<Dataset> line_dataset(const ScratchFolder& folder, const std::string& text, int64_t seq_len,
                                      const LineSplitConfig& split, uint32_t seed = 1,
                                      TokenizerKind kind = TokenizerKind::character) {
  TextConfig config;
  config.path = folder.write("lines.txt", text);
  config.tokenizer = kind;
  config.vocab_size = 260;
  config.split = TextSplit::lines;
  config.parts = split;
  config.seed = seed;
  config.seq_len = seq_len;
  return make_text_dataset(config);
}

// The lines of a split, in order, put together from its sequences: a sequence that begins with the end token begins a
// line.
std::vector<std::string> lines_of(const Dataset& dataset, Split split, int64_t seq_len) {
  std::vector<std::string> lines;
  Ids inputs(seq_len), targets(seq_len);
  for (int64_t sequence = 0; sequence < dataset.num_eval_sequences(split, seq_len); ++sequence) {
    dataset.eval_sequence(split, sequence, inputs, targets);
    if (inputs[0] == dataset.tokenizer()->end_token()) lines.emplace_back();
    bool padding = false;
    for (int64_t i = 0; i < seq_len; ++i) {
      padding = padding || targets[i] == kIgnoreTarget;
      EXPECT_EQ(targets[i] == kIgnoreTarget, padding);
      if (padding) {
        EXPECT_EQ(inputs[i], 0);
        continue;
      }
      if (i > 0) {
        EXPECT_EQ(inputs[i], targets[i - 1]);
      }
      lines.back() += dataset.tokenizer()->bytes(targets[i]);
    }
  }
  return lines;
}

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(LineDataset, ALineIsOneSequenceBetweenEndTokens) {
  const ScratchFolder folder;
  const auto dataset = line_dataset(folder, "ab\nab\nab\n", 5, {.val_lines = 1, .test_lines = 1});
  EXPECT_EQ(dataset->vocab_size(), 3);  // a, b, end
  Ids inputs(5), targets(5);
  dataset->train_sequence(0, 0, inputs, targets);
  EXPECT_EQ(inputs, (Ids{2, 0, 1, 0, 0}));
  EXPECT_EQ(targets, (Ids{0, 1, 2, -1, -1}));
}

TEST(LineDataset, TheEndTokenAddsOneIdToEveryTokenizer) {
  const ScratchFolder folder;
  const std::string text = "abab\ncdcd\n";
  EXPECT_EQ(line_dataset(folder, text, 5, {.val_lines = 1})->vocab_size(), 5);
  EXPECT_EQ(line_dataset(folder, text, 5, {.val_lines = 1}, 1, TokenizerKind::byte)->vocab_size(), 257);
#ifdef HEED_HAVE_SENTENCEPIECE
  EXPECT_EQ(line_dataset(folder, text, 5, {.val_lines = 1}, 1, TokenizerKind::bpe)->vocab_size(), 260);
#endif
}

TEST(LineDataset, EveryLineIsInOneSplitOnceAndEveryTargetOnce) {
  const ScratchFolder folder;
  std::multiset<std::string> expected;
  for (int i = 0; i < 50; ++i) expected.insert(std::to_string(i) + "\n");
  for (const int64_t seq_len : {1, 2, 3, 8}) {
    const auto dataset = line_dataset(folder, numbered_lines(50), seq_len, {.val_lines = 7, .test_lines = 5});
    const auto train = lines_of(*dataset, Split::train, seq_len), val = lines_of(*dataset, Split::validation, seq_len),
               test = lines_of(*dataset, Split::test, seq_len);
    EXPECT_EQ(train.size(), 38u);
    EXPECT_EQ(val.size(), 7u);
    EXPECT_EQ(test.size(), 5u);
    std::multiset<std::string> all(train.begin(), train.end());
    all.insert(val.begin(), val.end());
    all.insert(test.begin(), test.end());
    EXPECT_EQ(all, expected);
  }
}

TEST(LineDataset, TheSeedShufflesTheLines) {
  const ScratchFolder folder;
  const auto order = [&](uint32_t seed) {
    return lines_of(*line_dataset(folder, numbered_lines(50), 8, {.val_lines = 1}, seed), Split::train, 8);
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  const auto first = order(1);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  // The line left for validation is as good as any other: over 2000 seeds each of 5 about 400 times, deviation 18.
  std::map<int32_t, int> counts;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const LineDataset dataset({.name = "lines",
                               .tokenizer = std::make_shared<const ByteTokenizer>(true),
                               .tokens = {'a', 256, 'b', 256, 'c', 256, 'd', 256, 'e', 256},
                               .split = {.val_lines = 1},
                               .seed = seed},
                              2);
    Ids inputs(2), targets(2);
    dataset.eval_sequence(Split::validation, 0, inputs, targets);
    ++counts[targets[0]];
  }
  EXPECT_EQ(counts.size(), 5u);
  for (const auto& [line, count] : counts) EXPECT_LT(std::abs(count - 400), 5 * 18) << line;
}

TEST(LineDataset, EmptyLinesAndAMissingLastLineFeed) {
  const ScratchFolder folder;
  const auto all_lines = [&](const std::string& text) {
    const auto dataset = line_dataset(folder, text, 4, {.val_lines = 1});
    auto lines = lines_of(*dataset, Split::train, 4);
    lines.push_back(lines_of(*dataset, Split::validation, 4)[0]);
    return std::multiset<std::string>(lines.begin(), lines.end());
  };
  EXPECT_EQ(all_lines("ab\n\ncd"), (std::multiset<std::string>{"ab\n", "\n", "cd\n"}));
  EXPECT_EQ(all_lines("ab\n\ncd\n"), (std::multiset<std::string>{"ab\n", "\n", "cd\n"}));
  EXPECT_EQ(all_lines("\n\n"), (std::multiset<std::string>{"\n", "\n"}));
  EXPECT_EQ(all_lines("ab\r\ncd\r\n"), (std::multiset<std::string>{"ab\n", "cd\n"}));
}

TEST(LineDataset, TrainingDrawsEveryTargetAsOften) {
  const ScratchFolder folder;
  // Sequences of 2: "a" one, "bcd" two, "e" one; validation takes one of the others, which all look the same.
  const auto dataset = line_dataset(folder, "a\nbcd\nxy\nxy\nxy\nxy\nxy\nxy\n", 2, {.val_lines = 1}, 3);
  const BatchLoader loader(*dataset, 2, 100);
  const int64_t sequences = dataset->num_eval_sequences(Split::train, 2);
  std::map<Ids, int64_t> counts, lines;
  Ids inputs(2), targets(2);
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    dataset->eval_sequence(Split::train, sequence, inputs, targets);
    ++lines[targets];
  }
  for (uint64_t step = 0; step < 100; ++step) {
    const Batch batch = loader.train_batch(step, 0, 100);
    for (int64_t row = 0; row < 100; ++row) ++counts[{batch.targets[2 * row], batch.targets[2 * row + 1]}];
  }
  EXPECT_EQ(counts.size(), lines.size());
  for (const auto& [key, count] : counts) {
    const double expected = 10'000.0 * static_cast<double>(lines[key]) / static_cast<double>(sequences);
    EXPECT_LT(std::abs(static_cast<double>(count) - expected), 5 * std::sqrt(expected));
  }
}

TEST(LineDataset, ASequenceIsAPureFunctionOfSeedStepAndRow) {
  const ScratchFolder folder;
  const auto dataset = line_dataset(folder, numbered_lines(500), 4, {.val_lines = 1});
  const BatchLoader loader(*dataset, 4, 16);
  const Batch whole = loader.train_batch(5, 0, 16);
  for (int64_t row = 15; row >= 0; --row) {
    const Batch alone = loader.train_batch(5, row, 1);
    EXPECT_TRUE(std::equal(alone.targets.begin(), alone.targets.end(), whole.targets.begin() + row * 4));
  }
  EXPECT_NE(loader.train_batch(6, 0, 16).targets, whole.targets);
}

TEST(LineDataset, RefusesTooFewLinesBeforeTheFirstStep) {
  const ScratchFolder folder;
  const auto text_of = [&](const std::string& text, const LineSplitConfig& split) {
    return error_text<DataError>([&] { line_dataset(folder, text, 4, split); });
  };
  const std::string path = folder.path("lines.txt");
  EXPECT_TRUE(contains(text_of("", {.val_fraction = 0.5}), {path, "0 lines", "training"}));
  EXPECT_TRUE(contains(text_of("ab\ncd\n", {.val_lines = 2}), {path, "2 lines", "training"}));
  EXPECT_EQ(line_dataset(folder, "ab\ncd\n", 4, {.val_lines = 0})->num_eval_sequences(Split::validation, 4), 0);
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { line_dataset(folder, "ab\n", 4, {.val_lines = 2}); }),
                       {"data.val_lines", "2 and 0 lines", "there are 1"}));
  EXPECT_THROW(line_dataset(folder, "ab\ncd\n", 0, {.val_lines = 1}), ConfigError);
}

TEST(LineDataset, RefusesSequencesThatAreNotThere) {
  const ScratchFolder folder;
  const auto dataset = line_dataset(folder, numbered_lines(5), 4, {.val_lines = 1});
  Ids inputs(4), targets(4), longer(5);
  EXPECT_THROW(dataset->train_sequence(0, -1, inputs, targets), ValueError);
  EXPECT_THROW(dataset->train_sequence(0, 0, longer, longer), ValueError);
  EXPECT_THROW(dataset->eval_sequence(Split::validation, 1, inputs, targets), ValueError);
  EXPECT_THROW(dataset->eval_sequence(Split::test, 0, inputs, targets), ValueError);
  EXPECT_THROW(dataset->num_eval_sequences(Split::train, 5), ValueError);
}

}  // namespace
}  // namespace heed::data
