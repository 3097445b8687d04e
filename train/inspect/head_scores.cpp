#include "train/inspect/head_scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"

namespace heed::train {
void HeadScores::add(const HeadScores& other) {
  for (size_t s = 0; s < kNumHeadScores; ++s) share[s] += other.share[s];
  entropy += other.entropy;
  distance += other.distance;
  offset.resize(std::max(offset.size(), other.offset.size()));
  offset_queries.resize(offset.size());
  for (size_t d = 0; d < other.offset.size(); ++d) {
    const double queries = offset_queries[d] + other.offset_queries[d];
    offset[d] = (offset[d] * offset_queries[d] + other.offset[d] * other.offset_queries[d]) / queries;
    offset_queries[d] = queries;
  }
}

// The offsets that at least half of the queries have. A mean over few queries says little: that of the largest distance
// is one number, high for each head that attends to the first token.
constexpr size_t num_offsets(size_t length) { return length == 1 ? 1 : length / 2 + 1; }

size_t HeadScores::strongest_offset() const {
  const auto end = offset.begin() + static_cast<std::ptrdiff_t>(num_offsets(offset.size()));
  return static_cast<size_t>(std::max_element(offset.begin(), end) - offset.begin());
}

void HeadScores::divide_by(double count) {
  for (double& s : share) s /= count;
  entropy /= count;
  distance /= count;
}

KeyKinds::KeyKinds(std::span<const int32_t> tokens, std::optional<int32_t> separator)
    : length_(static_cast<int64_t>(tokens.size())), bits_(tokens.size() * tokens.size()) {
  int64_t segment_begin = 0;
  for (int64_t i = 0; i < length_; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      uint8_t& bits = bits_[i * length_ + j];
      const auto set = [&](HeadScore kind, bool is_of_kind) {
        if (is_of_kind) bits = static_cast<uint8_t>(bits | (1U << static_cast<unsigned>(kind)));
      };
      set(HeadScore::current, j == i);
      set(HeadScore::previous, j == i - 1);
      set(HeadScore::first, j == 0);
      set(HeadScore::duplicate, j < i && tokens[j] == tokens[i]);
      set(HeadScore::induction, j >= 1 && tokens[j - 1] == tokens[i]);
      set(HeadScore::segment, j >= segment_begin);
      set(HeadScore::older_half, j < (i + 1) / 2);
    }
    if (separator && tokens[i] == *separator) segment_begin = i + 1;
  }
}

HeadScores head_scores(std::span<const float> pattern, int64_t stride, const KeyKinds& kinds) {
  const int64_t length = kinds.length();
  require<ShapeError>(length > 0 && stride >= length && static_cast<int64_t>(pattern.size()) >= length * stride,
                      "head_scores: {} tokens need a pattern of {} rows of at least as many numbers, it has {} numbers",
                      length, length, pattern.size());
  HeadScores scores;
  scores.offset.resize(static_cast<size_t>(length));
  for (int64_t d = 0; d < length; ++d) scores.offset_queries.push_back(static_cast<double>(length - d));
  double all = 0;
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const double p = pattern[i * stride + j];
      const unsigned bits = kinds.bits(i, j);
      for (size_t s = 0; s < kNumHeadScores; ++s) scores.share[s] += (bits >> s & 1U) != 0 ? p : 0;
      all += p;
      if (p > 0) scores.entropy -= p * std::log(p);
      scores.distance += p * static_cast<double>(i - j);
      scores.offset[i - j] += p / static_cast<double>(length - (i - j));
    }
  }
  for (double& share : scores.share) share /= all;
  scores.entropy /= static_cast<double>(length);
  scores.distance /= static_cast<double>(length);
  return scores;
}

void ScoreRange::add(const ScoreRange& other) {
  uniform.add(other.uniform);
  largest.add(other.largest);
}

void ScoreRange::divide_by(double count) {
  uniform.divide_by(count);
  largest.divide_by(count);
}

ScoreRange score_range(const KeyKinds& kinds) {
  const int64_t length = kinds.length();
  std::vector<float> uniform(static_cast<size_t>(length * length));
  HeadScores largest;
  largest.offset.assign(static_cast<size_t>(length), 1.0);
  for (int64_t d = 0; d < length; ++d) largest.offset_queries.push_back(static_cast<double>(length - d));
  for (int64_t i = 0; i < length; ++i) {
    unsigned any = 0;
    for (int64_t j = 0; j <= i; ++j) {
      uniform[i * length + j] = 1.0F / static_cast<float>(i + 1);
      any |= kinds.bits(i, j);
    }
    for (size_t s = 0; s < kNumHeadScores; ++s) {
      largest.share[s] += (any >> s & 1U) != 0 ? 1.0 / static_cast<double>(length) : 0;
    }
  }
  return {head_scores(uniform, length, kinds), largest};
}

double relative_score(double score, double uniform, double largest) {
  return largest > uniform ? (score - uniform) / (largest - uniform) : 0;
}

HeadName name_head(const HeadScores& scores, const ScoreRange& range) {
  constexpr double kMost = 0.5;
  HeadName best{.name = "mixed", .relative = 0};
  const auto try_name = [&](const std::string& name, double relative) {
    if (relative <= best.relative) return;
    best.relative = relative;
    if (relative >= kMost) best.name = name;
  };
  for (const auto& [score, name] : {std::pair(HeadScore::previous, "previous token"),
                                    {HeadScore::current, "current token"},
                                    {HeadScore::first, "first token"},
                                    {HeadScore::duplicate, "duplicate token"},
                                    {HeadScore::induction, "induction"}}) {
    try_name(name, relative_score(scores.of(score), range.uniform.of(score), range.largest.of(score)));
  }
  for (size_t d = 2; d < num_offsets(scores.offset.size()); ++d) {
    try_name(fmt::format("offset {}", d),
             relative_score(scores.offset[d], range.uniform.offset[d], range.largest.offset[d]));
  }
  return best;
}

}  // namespace heed::train
