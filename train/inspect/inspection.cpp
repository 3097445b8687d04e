#include "train/inspect/inspection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/tape.hpp"
#include "train/inspect/attention_pattern.hpp"
#include "train/trainer/evaluator.hpp"
#include "train/trainer/parameter_norms.hpp"

namespace heed::train {
namespace {

// Keeps the activations of one forward pass.
class ActivationCache : public nn::ForwardHook {
 public:
  void qkv(int64_t /*layer*/, const Tensor& qkv, const AttentionOptions& options) override {
    attention_.push_back({qkv, options});
  }
  Tensor heads(int64_t /*layer*/, const Tensor& z) override {
    heads_.push_back(z);
    return z;
  }
  void residual(int64_t /*blocks*/, const Tensor& x) override { residual_.push_back(x); }

  struct AttentionInput {
    Tensor qkv;
    AttentionOptions options;
  };
  std::vector<AttentionInput> attention_;  // of each layer
  std::vector<Tensor> heads_, residual_;
};

// Replaces the output of one head by a constant.
class ReplaceHead : public nn::ForwardHook {
 public:
  ReplaceHead(int64_t layer, int64_t head, std::span<const double> value) : layer_(layer), head_(head), value_(value) {}

  Tensor heads(int64_t layer, const Tensor& z) override {
    if (layer != layer_) return z;
    const int64_t width = z.shape()[2], head_size = static_cast<int64_t>(value_.size());
    std::vector<double> values = z.values();
    for (int64_t row = 0; row < z.numel() / width; ++row) {
      std::copy(value_.begin(), value_.end(), values.begin() + row * width + head_ * head_size);
    }
    return from_values(z.shape(), z.dtype(), values, z.device());
  }

 private:
  int64_t layer_, head_;
  std::span<const double> value_;
};

// Rows [first, first + count) of a batch.
data::Batch rows_of(const data::Batch& batch, int64_t first, int64_t count) {
  const auto part = [&](const std::vector<int32_t>& tokens) {
    const auto begin = tokens.begin() + first * batch.seq_len;
    return std::vector<int32_t>(begin, begin + count * batch.seq_len);
  };
  return {.rows = count, .seq_len = batch.seq_len, .inputs = part(batch.inputs), .targets = part(batch.targets)};
}

bool has_target(const data::Batch& batch) {
  return std::any_of(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t != data::kIgnoreTarget; });
}

double square(double x) { return x * x; }

// ln p of all tokens at one position.
void log_softmax(std::span<double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  for (double& logit : logits) logit -= largest + std::log(sum);
}

std::vector<InspectedToken::Prediction> most_likely(std::span<const double> log_p) {
  std::vector<int32_t> ids(log_p.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto count = std::min<int64_t>(InspectedToken::kTop, static_cast<int64_t>(ids.size()));
  const auto before = [&](int32_t a, int32_t b) { return log_p[a] != log_p[b] ? log_p[a] > log_p[b] : a < b; };
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), before);
  std::vector<InspectedToken::Prediction> top;
  for (int64_t i = 0; i < count; ++i) top.push_back({ids[i], std::exp(log_p[ids[i]])});
  return top;
}

class Inspector {
 public:
  Inspector(nn::Gpt& model, const data::Batch& sequences, std::span<const int64_t> lengths,
            std::optional<int32_t> separator)
      : model_(model), config_(model.config()), sequences_(sequences), lengths_(lengths), separator_(separator) {
    const auto ignored = std::count(sequences.targets.begin(), sequences.targets.end(), data::kIgnoreTarget);
    result_.sequences = sequences.rows;
    result_.targets = static_cast<int64_t>(sequences.targets.size()) - ignored;
    require<DataError>(result_.targets > 0, "inspect: the sequences have no target");
  }

  Inspection run() {
    prepare();
    {
      const NoGradGuard no_grad;
      for_each_part(rows_at_a_time(model_, sequences_.seq_len, 1),
                    [&](const data::Batch& part, int64_t first) { measure(part, first); });
      take_means();
      require<DivergedError>(std::isfinite(result_.loss), "inspect: the loss is {}: take an earlier checkpoint",
                             result_.loss);
      ablate_heads();
    }
    measure_parameters();
    return std::move(result_);
  }

 private:
  // each(part, first): some rows of the sequences, and the index of the first of them.
  template <class Each>
  void for_each_part(int64_t rows, Each each) const {
    for (int64_t first = 0; first < sequences_.rows; first += rows) {
      each(rows_of(sequences_, first, std::min(rows, sequences_.rows - first)), first);
    }
  }

  // each(row, t, i): position t < length of row `row` of a part that begins with sequence `first`; i = row * T + t.
  template <class Each>
  void for_each_position(const data::Batch& part, int64_t first, Each each) const {
    for (int64_t row = 0; row < part.rows; ++row) {
      for (int64_t t = 0; t < lengths_[first + row]; ++t) each(row, t, row * part.seq_len + t);
    }
  }

  void prepare() {
    const auto layers = static_cast<size_t>(config_.num_layers), heads = static_cast<size_t>(config_.num_heads);
    const int64_t length = sequences_.seq_len, kept = std::min(lengths_[0], Inspection::kMaxPatternTokens);
    result_.heads.assign(layers, std::vector<InspectedHead>(heads));
    result_.layers.push_back({.name = "embedding"});
    for (size_t layer = 0; layer < layers; ++layer) result_.layers.push_back({.name = fmt::format("block {}", layer)});
    result_.layers.push_back({.name = "output head"});
    result_.position_loss.assign(static_cast<size_t>(length), 0.0);
    position_targets_.assign(static_cast<size_t>(length), 0.0);
    head_sums_.assign(layers, std::vector<double>(static_cast<size_t>(config_.d_model), 0.0));
    result_.patterns = zeros({config_.num_layers, config_.num_heads, kept, kept}, DType::f32);
  }

  // The forward pass of some sequences, and all that is measured of it.
  void measure(const data::Batch& part, int64_t first) {
    ActivationCache cache;
    const Shape shape{part.rows, part.seq_len};
    const Tensor logits =
        model_.logits(from_tokens(shape, part.inputs, model_.parameters().device()), {.hook = &cache});
    if (first == 0) describe_tokens(part);
    add_losses(logits, part, first);
    for (size_t layer = 0; layer < cache.attention_.size(); ++layer) {
      const auto& [qkv, options] = cache.attention_[layer];
      add_scores(attention_pattern(qkv, options), layer, part, first);
      add_head_sums(cache.heads_[layer], layer, part, first);
    }
    for (int64_t row = 0; row < part.rows; ++row) result_.range.add(score_range(kinds_of(part, first, row)));
    for (size_t blocks = 0; blocks < cache.residual_.size(); ++blocks) {
      add_residual(cache.residual_[blocks], blocks, part, first);
    }
  }

  KeyKinds kinds_of(const data::Batch& part, int64_t first, int64_t row) const {
    return {std::span(part.inputs).subspan(row * part.seq_len, lengths_[first + row]), separator_};
  }

  void describe_tokens(const data::Batch& part) {
    for (int64_t t = 0; t < lengths_[0]; ++t) {
      InspectedToken& token = result_.tokens.emplace_back();
      token.token = part.inputs[t];
      token.target = part.targets[t];
    }
  }

  // -ln p(target) of a position, whose logits become ln p; 0 without a target.
  double target_loss(std::vector<double>& logits, const data::Batch& part, int64_t position) const {
    const auto log_p = std::span(logits).subspan(position * config_.vocab_size, config_.vocab_size);
    log_softmax(log_p);
    const int32_t target = part.targets[position];
    return target == data::kIgnoreTarget ? 0 : -log_p[target];
  }

  void add_losses(const Tensor& logits, const data::Batch& part, int64_t first) {
    std::vector<double> values = logits.values();
    for_each_position(part, first, [&](int64_t row, int64_t t, int64_t i) {
      const double loss = target_loss(values, part, i);
      if (first + row == 0) {
        result_.tokens[t].loss = loss;
        result_.tokens[t].top = most_likely(std::span(values).subspan(i * config_.vocab_size, config_.vocab_size));
      }
      result_.loss += loss;
      result_.position_loss[t] += loss;
      position_targets_[t] += part.targets[i] == data::kIgnoreTarget ? 0 : 1;
    });
  }

  void add_scores(const Tensor& pattern, size_t layer, const data::Batch& part, int64_t first) {
    const int64_t width = part.seq_len, heads = config_.num_heads;
    const float* const values = pattern.data<float>();
    for (int64_t row = 0; row < part.rows; ++row) {
      const KeyKinds kinds = kinds_of(part, first, row);
      for (int64_t head = 0; head < heads; ++head) {
        const std::span one(values + (row * heads + head) * width * width, static_cast<size_t>(width * width));
        result_.heads[layer][head].scores.add(head_scores(one, width, kinds));
      }
    }
    if (first == 0) keep_patterns(values, layer, width);
  }

  // values (H, width, width): of the first sequence.
  void keep_patterns(const float* values, size_t layer, int64_t width) {
    const int64_t heads = config_.num_heads, kept = result_.patterns.shape()[2];
    float* to = result_.patterns.data<float>() + static_cast<int64_t>(layer) * heads * kept * kept;
    for (int64_t row = 0; row < heads * kept; ++row) {
      to = std::copy_n(values + (row / kept * width + row % kept) * width, kept, to);
    }
  }

  void add_head_sums(const Tensor& z, size_t layer, const data::Batch& part, int64_t first) {
    const std::vector<double> values = z.values();
    std::vector<double>& sums = head_sums_[layer];
    for_each_position(part, first, [&](int64_t, int64_t, int64_t i) {
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += values[static_cast<size_t>(i) * sums.size() + c];
    });
  }

  void add_residual(const Tensor& x, size_t blocks, const data::Batch& part, int64_t first) {
    InspectedLayer& layer = result_.layers[blocks];
    const std::vector<double> residual = x.values();
    std::vector<double> values = model_.head(x).values();
    for_each_position(part, first, [&](int64_t row, int64_t t, int64_t i) {
      for (int64_t c = 0; c < config_.d_model; ++c) layer.residual_rms += square(residual[i * config_.d_model + c]);
      const double loss = target_loss(values, part, i);
      layer.lens_loss += loss;
      if (first + row == 0) result_.tokens[t].lens_loss.push_back(loss);
    });
  }

  // Sums become means.
  void take_means() {
    const auto sequences = static_cast<double>(result_.sequences), targets = static_cast<double>(result_.targets);
    const auto positions = static_cast<double>(std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0}));
    result_.loss /= targets;
    result_.range.divide_by(sequences);
    for (auto& layer : result_.heads) {
      for (InspectedHead& head : layer) {
        head.scores.divide_by(sequences);
        head.name = name_head(head.scores, result_.range);
      }
    }
    for (InspectedLayer& layer : result_.layers) {
      layer.lens_loss /= targets;
      layer.residual_rms = std::sqrt(layer.residual_rms / positions / static_cast<double>(config_.d_model));
    }
    for (auto& sums : head_sums_) {
      for (double& sum : sums) sum /= positions;
    }
    for (size_t t = 0; t < position_targets_.size(); ++t) {
      const double count = position_targets_[t];
      result_.position_loss[t] =
          count == 0 ? std::numeric_limits<double>::quiet_NaN() : result_.position_loss[t] / count;
    }
  }

  // The sum over the targets of the loss with this hook.
  double loss_sum(nn::ForwardHook& hook) const {
    const Device device = model_.parameters().device();
    double sum = 0;
    for_each_part(rows_at_a_time(model_, sequences_.seq_len, 1), [&](const data::Batch& part, int64_t) {
      if (!has_target(part)) return;
      const Shape shape{part.rows, part.seq_len};
      sum += model_
                 .loss(from_tokens(shape, part.inputs, device), from_tokens(shape, part.targets, device),
                       {.hook = &hook}, 1.0)
                 .item();
    });
    return sum;
  }

  void ablate_heads() {
    const int64_t head_size = config_.head_size();
    nn::ForwardHook no_change;
    const double before = loss_sum(no_change);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      for (int64_t head = 0; head < config_.num_heads; ++head) {
        ReplaceHead hook(layer, head, std::span(head_sums_[layer]).subspan(head * head_size, head_size));
        result_.heads[layer][head].mean_ablation = (loss_sum(hook) - before) / static_cast<double>(result_.targets);
      }
    }
  }

  InspectedLayer& layer_of(const std::string& parameter) {
    const std::string name = layer_name(parameter);
    return *std::find_if(result_.layers.begin(), result_.layers.end(),
                         [&](const InspectedLayer& layer) { return layer.name == name; });
  }

  void measure_parameters() {
    const Device device = model_.parameters().device();
    model_.parameters().zero_gradients();
    model_.set_recompute(true);  // whatever the run could train, one row at a time fits into memory
    for_each_part(1, [&](const data::Batch& part, int64_t) {
      if (!has_target(part)) return;
      const Shape shape{part.rows, part.seq_len};
      model_.loss_and_backward(from_tokens(shape, part.inputs, device), from_tokens(shape, part.targets, device), {},
                               static_cast<double>(result_.targets));
    });
    for (const nn::ParameterStore::Entry& entry : model_.parameters().entries()) {
      InspectedLayer& layer = layer_of(entry.name);
      layer.parameters += entry.shape.numel();
      for (const double value : entry.values.values()) layer.weight_norm += square(value);
      for (const double value : entry.tensor.grad().values()) layer.gradient_norm += square(value);
    }
    for (InspectedLayer& layer : result_.layers) {
      layer.weight_norm = std::sqrt(layer.weight_norm);
      layer.gradient_norm = std::sqrt(layer.gradient_norm);
    }
  }

  nn::Gpt& model_;
  const nn::GptConfig config_;
  const data::Batch& sequences_;
  std::span<const int64_t> lengths_;
  std::optional<int32_t> separator_;
  Inspection result_;
  std::vector<double> position_targets_;        // (T), the number of targets at each position
  std::vector<std::vector<double>> head_sums_;  // (L, H D), then means, of the heads' outputs
};

}  // namespace

Inspection inspect(nn::Gpt& model, const data::Batch& sequences, std::span<const int64_t> lengths,
                   std::optional<int32_t> separator) {
  return Inspector(model, sequences, lengths, separator).run();
}

std::vector<int64_t> lengths_by_targets(const data::Batch& sequences) {
  std::vector<int64_t> lengths(static_cast<size_t>(sequences.rows), 1);
  for (int64_t i = 0; i < sequences.rows * sequences.seq_len; ++i) {
    if (sequences.targets[i] != data::kIgnoreTarget) lengths[i / sequences.seq_len] = i % sequences.seq_len + 1;
  }
  return lengths;
}

}  // namespace heed::train
