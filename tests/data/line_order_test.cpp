// How a dataset of lines draws: every order of the lines is as likely, and the seed decides training sequences too.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "data/line_dataset.hpp"
#include "data/text/char_tokenizer.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::data {
namespace {

using Ids = std::vector<int32_t>;

// Lines of one character each, all for training: 0, 1, …
LineDataset one_character_lines(int32_t lines, uint32_t seed) {
  std::vector<char32_t> characters;
  for (int32_t i = 0; i < lines; ++i) characters.push_back(static_cast<char32_t>('a' + i));
  const auto tokenizer = std::make_shared<const CharTokenizer>(characters, true);
  Ids tokens;
  for (int32_t i = 0; i < lines; ++i) tokens.insert(tokens.end(), {i, *tokenizer->end_token()});
  return LineDataset(
      {.name = "lines", .tokenizer = tokenizer, .tokens = tokens, .split = {.val_fraction = 0}, .seed = seed}, 2);
}

// The line of each sequence: of the whole split in its order, or as training draws them.
Ids order_of(const LineDataset& dataset) {
  Ids order, inputs(2), targets(2);
  for (int64_t i = 0; i < dataset.num_eval_sequences(Split::train, 2); ++i) {
    dataset.eval_sequence(Split::train, i, inputs, targets);
    order.push_back(targets[0]);
  }
  return order;
}

Ids drawn_from(const LineDataset& dataset, int64_t count) {
  Ids drawn, inputs(2), targets(2);
  for (int64_t row = 0; row < count; ++row) {
    dataset.train_sequence(7, row, inputs, targets);
    drawn.push_back(targets[0]);
  }
  return drawn;
}

TEST(LineOrder, EveryOrderIsAsLikely) {
  constexpr double kExpected = 100;
  std::map<Ids, int> counts;
  for (uint32_t seed = 0; seed < 24 * kExpected; ++seed) ++counts[order_of(one_character_lines(4, seed))];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) {
    EXPECT_LT(std::abs(count - kExpected), test::kSigmas * std::sqrt(kExpected))
        << "order that begins with line " << order[0];
  }
}

TEST(LineOrder, SeedsOfTheSameOrderDrawDifferently) {
  std::map<Ids, Ids> first;  // what the first seed of an order draws
  int compared = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const LineDataset dataset = one_character_lines(3, seed);
    const Ids drawn = drawn_from(dataset, 64);
    const auto [found, is_first] = first.emplace(order_of(dataset), drawn);
    if (is_first) continue;
    ++compared;
    EXPECT_NE(found->second, drawn) << "seed " << seed;
  }
  EXPECT_GE(compared, 14);  // three lines have six orders
}

}  // namespace
}  // namespace heed::data
