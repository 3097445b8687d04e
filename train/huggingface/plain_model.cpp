#include "train/huggingface/plain_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/core/check.hpp"
#include "train/huggingface/plain_parts.hpp"

namespace heed::train {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

Row project(const PlainLinear& linear, const Row& x) {
  Row y(linear.out);
  for (int64_t o = 0; o < linear.out; ++o) {
    const float* weight = linear.weight.data() + o * linear.in;
    double sum = linear.bias.empty() ? 0 : linear.bias[o];
    for (int64_t i = 0; i < linear.in; ++i) sum += weight[i] * x[i];
    y[o] = sum;
  }
  return y;
}

Row normalize(const PlainNorm& norm, const Row& x, bool is_rms, double eps) {
  if (!norm.is_there) return x;
  const auto size = static_cast<double>(x.size());
  double mean = 0, square = 0;
  for (const double value : x) mean += value / size;
  if (is_rms) mean = 0;
  for (const double value : x) square += (value - mean) * (value - mean) / size;
  Row y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(square + eps);
    if (!norm.gain.empty()) y[i] *= norm.gain[i];
    if (!norm.bias.empty()) y[i] += norm.bias[i];
  }
  return y;
}

void add(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

class Forward {
 public:
  explicit Forward(const PlainModel::Parts& parts) : parts_(parts) {}

  Rows embed(std::span<const int32_t> tokens) const {
    Rows x;
    for (size_t t = 0; t < tokens.size(); ++t) {
      Row row(parts_.width);
      for (int64_t c = 0; c < parts_.width; ++c) {
        row[c] = parts_.embedding[tokens[t] * parts_.width + c] * parts_.embedding_scale;
        if (!parts_.position_table.empty()) row[c] += parts_.position_table[static_cast<int64_t>(t) * parts_.width + c];
      }
      x.push_back(norm(parts_.embedding_norm, row));
    }
    return x;
  }

  void run(const PlainLayer& layer, Rows& x) const {
    Rows inputs;
    for (const Row& row : x) inputs.push_back(parts_.is_post ? row : norm(layer.attention_norm, row));
    const Rows attended = attention(layer, inputs);
    for (size_t t = 0; t < x.size(); ++t) {
      add(x[t], norm(layer.post_attention_norm, project(layer.projection, attended[t])));
      if (parts_.is_post) x[t] = norm(layer.attention_norm, x[t]);
      const Row hidden = mlp(layer, parts_.is_post ? x[t] : norm(layer.mlp_norm, x[t]));
      add(x[t], norm(layer.post_mlp_norm, hidden));
      if (parts_.is_post) x[t] = norm(layer.mlp_norm, x[t]);
    }
  }

  Row head(const Row& x) const {
    Row logits = project(parts_.head, norm(parts_.last_norm, x));
    if (parts_.softcap == 0) return logits;
    for (double& logit : logits) logit = parts_.softcap * std::tanh(logit / parts_.softcap);
    return logits;
  }

 private:
  Row norm(const PlainNorm& norm, const Row& x) const { return normalize(norm, x, parts_.is_rms, parts_.eps); }

  Row mlp(const PlainLayer& layer, const Row& x) const {
    Row hidden = project(layer.up, x);
    if (layer.gate.out == 0) {
      for (double& value : hidden) value = parts_.activation(value);
    } else {
      const Row gates = project(layer.gate, x);
      for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= parts_.activation(gates[i]);
    }
    return project(layer.down, hidden);
  }

  // One head of a row of queries or keys, normalized and rotated.
  Row head_of(const Row& all, int64_t head, const PlainNorm& head_norm, size_t position) const {
    const auto begin = all.begin() + head * parts_.head_size;
    Row x(begin, begin + parts_.head_size);
    if (parts_.rotates_before_norm) return norm(head_norm, rotated(x, position));
    return rotated(norm(head_norm, x), position);
  }

  Row rotated(const Row& x, size_t position) const {
    const size_t pairs = parts_.frequencies.size();
    Row y = x;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * parts_.frequencies[i];
      const double cosine = std::cos(angle), sine = parts_.rotates_backward ? -std::sin(angle) : std::sin(angle);
      y[i] = x[i] * cosine - x[i + pairs] * sine;
      y[i + pairs] = x[i + pairs] * cosine + x[i] * sine;
    }
    return y;
  }

  // The heads of all rows: [row][head].
  std::vector<Rows> heads_of(const PlainLinear& linear, const Rows& inputs, int64_t heads, const PlainNorm& norm,
                             bool is_value) const {
    std::vector<Rows> all;
    for (size_t t = 0; t < inputs.size(); ++t) {
      const Row row = project(linear, inputs[t]);
      Rows split;
      for (int64_t head = 0; head < heads; ++head) {
        const auto begin = row.begin() + head * parts_.head_size;
        split.push_back(is_value ? Row(begin, begin + parts_.head_size) : head_of(row, head, norm, t));
      }
      all.push_back(std::move(split));
    }
    return all;
  }

  Rows attention(const PlainLayer& layer, const Rows& inputs) const {
    const auto q = heads_of(layer.q, inputs, parts_.heads, layer.q_norm, false);
    const auto k = heads_of(layer.k, inputs, parts_.kv_heads, layer.k_norm, false);
    const auto v = heads_of(layer.v, inputs, parts_.kv_heads, {}, true);
    Rows result(inputs.size(), Row(parts_.heads * parts_.head_size));
    for (size_t t = 0; t < inputs.size(); ++t) {
      for (int64_t head = 0; head < parts_.heads; ++head) attend(layer.window, q, k, v, t, head, result[t]);
    }
    return result;
  }

  void attend(int64_t window, const std::vector<Rows>& q, const std::vector<Rows>& k, const std::vector<Rows>& v,
              size_t t, int64_t head, Row& result) const {
    const int64_t shared = head / (parts_.heads / parts_.kv_heads);
    const size_t first = window == 0 || t + 1 < static_cast<size_t>(window) ? 0 : t + 1 - static_cast<size_t>(window);
    Row scores(t + 1, -std::numeric_limits<double>::infinity());
    for (size_t s = first; s <= t; ++s) {
      double dot = 0;
      for (int64_t c = 0; c < parts_.head_size; ++c) dot += q[t][head][c] * k[s][shared][c];
      scores[s] = dot * parts_.score_scale;
      if (!parts_.slopes.empty()) scores[s] -= parts_.slopes[head] * static_cast<double>(t - s);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (size_t s = first; s <= t; ++s) {
      for (int64_t c = 0; c < parts_.head_size; ++c) {
        result[head * parts_.head_size + c] += scores[s] / sum * v[s][shared][c];
      }
    }
  }

  const PlainModel::Parts& parts_;
};

}  // namespace

PlainModel::PlainModel(const std::string& folder) : parts_(read_plain_parts(folder)) {}
PlainModel::~PlainModel() = default;

std::vector<double> PlainModel::logits(std::span<const int32_t> tokens) const {
  const auto length = static_cast<int64_t>(tokens.size());
  require<DataError>(parts_->positions == 0 || length <= parts_->positions,
                     "a sequence of {} tokens, the model has {} positions", length, parts_->positions);
  for (const int32_t token : tokens) {
    require<DataError>(token >= 0 && token < parts_->vocab_size, "token {} is not of a vocabulary of {}", token,
                       parts_->vocab_size);
  }
  const Forward forward(*parts_);
  Rows x = forward.embed(tokens);
  for (const PlainLayer& layer : parts_->layers) forward.run(layer, x);
  std::vector<double> logits;
  for (const Row& row : x) {
    const Row one = forward.head(row);
    logits.insert(logits.end(), one.begin(), one.end());
  }
  return logits;
}

}  // namespace heed::train
