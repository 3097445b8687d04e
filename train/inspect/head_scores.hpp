// Scores of an attention head: which part of its attention goes to which kind of key.
//
// A pattern is (T, T), row i the attention probabilities of query i over the keys j <= i. A score is the share of all
// attention that falls on the keys of its kind: sum(pattern · mask) / sum(pattern), as TransformerLens' detect_head()
// with error_measure "mul" defines it. The masks:
//   current    j = i
//   previous   j = i - 1                                   previous-token head
//   first      j = 0                                       attention sink
//   duplicate  token[j] = token[i], j < i                  duplicate-token head
//   induction  token[j - 1] = token[i], 1 <= j <= i        the key after an earlier copy of the query's token
//   segment    same segment as the query: no separator in token[j] … token[i - 1]
//   older_half the older half of the query's context, j < (i + 1) / 2
// Olsson et al. 2022, "In-context Learning and Induction Heads" (arXiv 2209.11895); segment (they call it block):
// Kovaleva et al. 2019 (arXiv 1908.08593).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heed::train {

enum class HeadScore { current, previous, first, duplicate, induction, segment, older_half };
inline constexpr std::array kHeadScoreNames = {"current",   "previous", "first",     "duplicate",
                                               "induction", "segment",  "older_half"};
inline constexpr size_t kNumHeadScores = kHeadScoreNames.size();

// Of one sequence, or the mean over several: the sum by add(), then divide_by().
struct HeadScores {
  std::array<double, kNumHeadScores> share{};
  double entropy = 0;   // nats, the mean over the queries of -sum p ln p
  double distance = 0;  // the mean over the queries of sum p (i - j), in tokens
  // offset[d]: the mean of pattern[i, i - d] over the offset_queries[d] queries i >= d, of all sequences; offset[1] is
  // that of the previous token.
  std::vector<double> offset, offset_queries;

  double of(HeadScore score) const { return share[static_cast<size_t>(score)]; }
  // The d of the largest offset[d], among those that at least half of the queries have.
  size_t strongest_offset() const;
  void add(const HeadScores& other);
  void divide_by(double count);
};

// The kinds of each pair of query and key of one sequence: the masks above.
class KeyKinds {
 public:
  // separator: the token that ends a segment, such as a line feed; without one the sequence is one segment.
  KeyKinds(std::span<const int32_t> tokens, std::optional<int32_t> separator);

  int64_t length() const { return length_; }
  // Bit s is set if key j <= i of query i is of the kind HeadScore(s).
  uint8_t bits(int64_t i, int64_t j) const { return bits_[i * length_ + j]; }

 private:
  int64_t length_;
  std::vector<uint8_t> bits_;
};

// pattern: the upper left (T, T) of rows of `stride` numbers, T = kinds.length(): the rest is padding. Throws
// ShapeError if it has less than T rows, or T = 0.
HeadScores head_scores(std::span<const float> pattern, int64_t stride, const KeyKinds& kinds);

// What scores are compared with, on the same sequences: a head that attends to all keys alike, and the largest value
// that each score can have, which is below 1 if there are queries without a key of that kind.
struct ScoreRange {
  HeadScores uniform;
  HeadScores largest;  // share and offset only

  void add(const ScoreRange& other);
  void divide_by(double count);
};
ScoreRange score_range(const KeyKinds& kinds);

// 0 for uniform attention, 1 for the largest value; negative if the head avoids such keys.
double relative_score(double score, double uniform, double largest);

// What a head does, by the largest relative score among current, previous, first, duplicate, induction and the offsets
// of 2 and more ("offset 3"); "mixed" if none reaches 0.5. `relative` is that largest score.
struct HeadName {
  std::string name;
  double relative = 0;
};
HeadName name_head(const HeadScores& scores, const ScoreRange& range);

}  // namespace heed::train
