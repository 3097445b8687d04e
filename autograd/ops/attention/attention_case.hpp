// The plain reference of attention, templated on the scalar type, and the settings of its samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/dropout.hpp"

namespace heed::attention_case {

struct Setting {
  std::string label = {};
  int64_t batch = 2, queries = 5, keys = 5, heads = 2, kv_heads = 2, head_size = 3;
  bool causal = true;
  double scale = 0;
  std::vector<int32_t> lengths = {};
  PaddingSide side = PaddingSide::right;
  double dropout = 0;
  int64_t window = 0;
  bool alibi = false;
  std::vector<int32_t> tokens = {};  // of each position, (batch, keys): documents end with a 0; empty: no documents
  bool differences = true;           // whether the gradient is also checked by differences
};

inline constexpr int64_t kFirstRow = 3;
inline const RandomStream kRandom{.seed = 11, .site = random_site(RandomDomain::dropout, 2, 1), .step = 9};

inline AttentionOptions options(const Setting& s, Device device) {
  return {.num_heads = s.heads,
          .num_kv_heads = s.kv_heads,
          .causal = s.causal,
          .scale = s.scale,
          .lengths = s.lengths.empty() ? Tensor() : from_tokens({s.batch}, s.lengths, device),
          .side = s.side,
          .window = s.window,
          .alibi = s.alibi,
          .documents = s.tokens.empty() ? DocumentRanges()
                                        : document_ranges(from_tokens({s.batch, s.keys}, s.tokens, device), 0),
          .dropout = s.dropout,
          .random = kRandom,
          .first_row = kFirstRow};
}

inline bool is_valid(const Setting& s, int64_t b, int64_t position) {
  if (s.lengths.empty()) return true;
  const int64_t length = s.lengths[static_cast<size_t>(b)];
  return s.side == PaddingSide::right ? position < length : position >= s.keys - length;
}

// Whether no document ends between two positions.
inline bool are_in_one_document(const Setting& s, int64_t b, int64_t i, int64_t j) {
  if (s.tokens.empty()) return true;
  for (int64_t t = std::min(i, j); t < std::max(i, j); ++t) {
    if (s.tokens[static_cast<size_t>(b * s.keys + t)] == 0) return false;
  }
  return true;
}

inline bool sees(const Setting& s, int64_t b, int64_t i, int64_t j) {
  const bool query_is_valid = s.queries != s.keys || is_valid(s, b, i);
  const int64_t position = i + s.keys - s.queries;
  if (!query_is_valid || !is_valid(s, b, j)) return false;
  if (s.causal && j > position) return false;
  if (s.window > 0 && j + s.window <= position) return false;
  return are_in_one_document(s, b, position, j);
}

// The slope of ALiBi, as the rule of the paper's authors: the slopes of the next smaller power of two, then every
// second one of the next larger one.
inline double slope(int64_t head, int64_t heads) {
  const double power = std::exp2(std::floor(std::log2(static_cast<double>(heads))));
  const auto h = static_cast<double>(head);
  return h < power ? std::pow(std::exp2(-8 / power), h + 1) : std::pow(std::exp2(-4 / power), 2 * (h - power) + 1);
}

inline bool keeps(const Setting& s, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (s.dropout == 0) return true;
  const int64_t index = (((kFirstRow + b) * s.heads + h) * s.queries + i) * round_up(s.keys, 8) + j;
  return kRandom.half(static_cast<uint64_t>(index)) >= dropout_threshold(s.dropout);
}

// Where the heads of one tensor are among the inputs.
template <class S>
struct Heads {
  const ReferenceInput<S>& input;
  int64_t head_size, first_head;
  const S& at(int64_t b, int64_t t, int64_t h, int64_t c) const {
    return input[(b * input.shape[1] + t) * input.shape[2] + (first_head + h) * head_size + c];
  }
};

// One row of one head; keys that are not seen take no part at all.
template <class S>
void append_row(const Setting& s, const Heads<S>& q, const Heads<S>& k, const Heads<S>& v, int64_t b, int64_t i,
                int64_t h, std::vector<S>& y) {
  using std::exp;
  const int64_t kv_head = h / (s.heads / s.kv_heads);
  const double scale = s.scale == 0 ? 1 / std::sqrt(static_cast<double>(s.head_size)) : s.scale;
  std::vector<int64_t> keys;
  std::vector<S> scores;
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(s, b, i, j)) continue;
    S score = 0;
    for (int64_t c = 0; c < s.head_size; ++c) score += q.at(b, i, h, c) * k.at(b, j, kv_head, c);
    keys.push_back(j);
    const double bias = s.alibi ? slope(h, s.heads) * static_cast<double>(j - (i + s.keys - s.queries)) : 0;
    scores.push_back(score * S(scale) + S(bias));
  }
  std::vector<S> row(static_cast<size_t>(s.head_size), S(0));
  if (!keys.empty()) {
    S most = scores[0], sum = 0;
    for (const S& score : scores) most = score > most ? score : most;
    for (S& score : scores) sum += score = exp(score - most);
    for (size_t n = 0; n < keys.size(); ++n) {
      if (!keeps(s, b, h, i, keys[n])) continue;
      const S weight = scores[n] / sum * S(1 / (1 - dropout_rate(s.dropout)));
      for (int64_t c = 0; c < s.head_size; ++c) row[static_cast<size_t>(c)] += weight * v.at(b, keys[n], kv_head, c);
    }
  }
  y.insert(y.end(), row.begin(), row.end());
}

// Inputs q, k, v, or one packed tensor.
template <class S>
std::vector<S> reference(const Setting& s, const ReferenceInputs<S>& in) {
  const bool packed = in.size() == 1;
  const Heads<S> q{in[0], s.head_size, 0};
  const Heads<S> k{in[packed ? 0 : 1], s.head_size, packed ? s.heads : 0};
  const Heads<S> v{in[packed ? 0 : 2], s.head_size, packed ? s.heads + s.kv_heads : 0};
  std::vector<S> y;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t h = 0; h < s.heads; ++h) append_row(s, q, k, v, b, i, h, y);
    }
  }
  return y;
}

}  // namespace heed::attention_case
