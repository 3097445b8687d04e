#include "train/huggingface/export_tensors.hpp"

#include <fmt/format.h>

#include <cmath>

#include "nn/gpt.hpp"

namespace heed::train {
namespace {

using nn::GptConfig, nn::NormKind, nn::Position;

// The last norm has a gain, which takes the factor of muP before the head.
bool last_norm_has_gain(const ModelClass& one, const GptConfig& model) {
  return model.has_last_norm() && one.has_norm_gain;
}

// The factor of muP before the head, or 1 if the last norm takes it.
double head_factor(const ModelClass& one, const GptConfig& model) {
  return last_norm_has_gain(one, model) ? 1 : 1 / model.width_multiplier();
}

Matrix sinusoids(const GptConfig& model) {
  const Tensor table = nn::sinusoidal_positions(model.seq_len, model.d_model, DType::f32);
  Matrix matrix = zeros(model.seq_len, model.d_model);
  std::copy_n(table.data<float>(), matrix.values.size(), matrix.values.begin());
  return matrix;
}

class Exporter {
 public:
  Exporter(const ModelClass& one, const ModelWeights& weights)
      : one_(one),
        names_(one.names),
        weights_(weights),
        model_(weights.model()),
        queries_(model_.num_heads * model_.head_size()),
        keys_(model_.kv_heads() * model_.head_size()) {}

  std::vector<ExportTensor> tensors() {
    embeddings();
    for (int64_t layer = 0; layer < model_.num_layers; ++layer) {
      layer_ = fmt::format(fmt::runtime(names_.layer), layer);
      block_ = fmt::format("blocks.{}.", layer);
      attention();
      if (!model_.attention_only) mlp();
      if (model_.attention_only) empty_mlp();
    }
    layer_.clear();
    block_.clear();
    if (model_.has_last_norm()) norm(names_.last_norm, "last_norm", 1 / model_.width_multiplier() / head_factor());
    if (!has_tied_head(one_, model_)) head();
    return std::move(tensors_);
  }

 private:
  using Values = std::function<Matrix()>;

  double head_factor() const { return train::head_factor(one_, model_); }

  void add(std::string name, std::vector<int64_t> shape, Values values) {
    tensors_.push_back({std::move(name), std::move(shape), std::move(values)});
  }

  // rows, columns: of the heed weight. bias: empty if the class has none.
  void linear(std::string_view name, int64_t rows, int64_t columns, const Values& weight, const Values& bias) {
    const std::string prefix = layer_ + std::string(name);
    if (one_.is_transposed) {
      add(prefix + ".weight", {columns, rows}, [weight] { return transposed(weight()); });
    } else {
      add(prefix + ".weight", {rows, columns}, weight);
    }
    if (bias) add(prefix + ".bias", {rows}, bias);
  }

  // factor: on gain and bias.
  void norm(std::string_view name, const std::string& parameter, double factor = 1, int64_t size = 0) {
    if (name.empty() || !one_.has_norm_gain) return;
    const int64_t width = size == 0 ? model_.d_model : size;
    const std::string ours = block_ + parameter, theirs = layer_ + std::string(name);
    add(theirs + ".weight", {width}, [this, ours, width, factor] {
      Matrix gain = scaled(weights_.gain(ours + ".weight", width), factor);
      for (float& value : gain.values) value -= one_.gain_is_offset ? 1.0F : 0.0F;
      return gain;
    });
    if (one_.norm != NormKind::layer || !one_.has_norm_bias) return;
    add(theirs + ".bias", {width},
        [this, ours, width, factor] { return scaled(weights_.bias(ours + ".bias", width), factor); });
  }

  void embeddings() {
    const double factor = one_.gain_is_offset ? 1 / std::sqrt(static_cast<double>(model_.d_model)) : 1;
    add(std::string(names_.token_embedding) + ".weight", {model_.vocab_size, model_.d_model},
        [this, factor] { return scaled(weights_.matrix("token_embedding.weight"), factor); });
    if (one_.positions == ClassPositions::absolute) position_table();
    norm(names_.embedding_norm, "embedding_norm");
  }

  void position_table() {
    const int64_t rows = one_.position_offset + model_.seq_len;
    add(std::string(names_.position_embedding) + ".weight", {rows, model_.d_model}, [this] {
      const Matrix table = model_.position == Position::learned      ? weights_.matrix("position_embedding.weight")
                           : model_.position == Position::sinusoidal ? sinusoids(model_)
                                                                     : zeros(model_.seq_len, model_.d_model);
      return one_.position_offset == 0 ? table : stacked({zeros(one_.position_offset, model_.d_model), table});
    });
  }

  void attention() {
    norm(names_.attention_norm, "attention_norm");
    // heed's scale of the scores relative to that of the class, 1 / sqrt(D).
    const double scale = model_.attention_scale() * std::sqrt(static_cast<double>(model_.head_size()));
    qkv(one_.has_qk_norm ? 1 : scale);
    if (one_.has_qk_norm) {
      norm(names_.q_norm, "attention.q_norm", scale, model_.head_size());
      norm(names_.k_norm, "attention.k_norm", 1, model_.head_size());
    }
    const std::string ours = block_ + "attention.projection";
    linear(
        names_.projection, model_.d_model, model_.d_model, [this, ours] { return weights_.matrix(ours + ".weight"); },
        bias_if(one_.has_projection_bias, ours, model_.d_model));
    norm(names_.post_attention_norm, "post_attention_norm");
  }

  bool writes_bias(bool has_bias) const { return has_bias && (model_.bias || !one_.has_optional_biases); }

  Values bias_if(bool has_bias, const std::string& parameter, int64_t rows) const {
    if (!writes_bias(has_bias)) return {};
    return [this, parameter, rows] { return weights_.bias(parameter + ".bias", rows); };
  }

  // The queries, keys or values in `all`, the weight or the bias of the three together.
  enum class Part { query, key, value };
  Matrix part_of(const Matrix& all, Part part, double query_scale) const {
    const int64_t size = model_.head_size();
    if (part == Part::query) {
      const Matrix queries = scaled(rows_of(all, 0, queries_), query_scale);
      return one_.rotates_backward ? halves_swapped(queries, size) : queries;
    }
    Matrix some = rows_of(all, part == Part::key ? queries_ : queries_ + keys_, keys_);
    if (part == Part::key && one_.rotates_backward) some = halves_swapped(some, size);
    return one_.has_kv_heads ? some : repeated(some, size, model_.num_heads / model_.kv_heads());
  }

  Matrix fused(const Matrix& all, double query_scale) const {
    const Matrix q = part_of(all, Part::query, query_scale), k = part_of(all, Part::key, 1),
                 v = part_of(all, Part::value, 1);
    if (one_.qkv == QkvLayout::stacked) return stacked({q, k, v});
    const int64_t size = model_.head_size();
    std::vector<Matrix> heads;
    for (int64_t begin = 0; begin < queries_; begin += size) {
      for (const Matrix* part : {&q, &k, &v}) heads.push_back(rows_of(*part, begin, size));
    }
    return stacked(heads);
  }

  void qkv(double query_scale) {
    const std::string ours = block_ + "attention.qkv";
    const int64_t kv_rows = one_.has_kv_heads ? keys_ : queries_;
    const auto all = [this, ours](const char* kind) {
      const std::string name = ours + kind;
      return kind == std::string_view(".bias") ? weights_.bias(name, queries_ + 2 * keys_) : weights_.matrix(name);
    };
    const auto add_rows = [&](std::string_view name, int64_t rows, const std::function<Matrix(const Matrix&)>& take) {
      linear(
          name, rows, model_.d_model, [all, take] { return take(all(".weight")); },
          writes_bias(one_.has_qkv_bias) ? Values([all, take] { return take(all(".bias")); }) : Values());
    };
    if (one_.qkv != QkvLayout::separate) {
      add_rows(names_.q, queries_ + 2 * kv_rows,
               [this, query_scale](const Matrix& every) { return fused(every, query_scale); });
      return;
    }
    const auto add_part = [&](std::string_view name, Part part, int64_t rows) {
      add_rows(name, rows,
               [this, part, query_scale](const Matrix& every) { return part_of(every, part, query_scale); });
    };
    add_part(names_.q, Part::query, queries_);
    add_part(names_.k, Part::key, kv_rows);
    add_part(names_.v, Part::value, kv_rows);
  }

  // Rows [begin, begin + count) of the first layer of the MLP, in `rows` rows.
  void up_part(std::string_view name, int64_t begin, int64_t count, int64_t rows) {
    const std::string ours = block_ + "feed_forward.up";
    const int64_t outputs = model_.feed_forward_outputs();
    linear(
        name, rows, model_.d_model,
        [this, ours, begin, count, rows] {
          return padded(rows_of(weights_.matrix(ours + ".weight"), begin, count), rows, model_.d_model);
        },
        writes_bias(one_.has_mlp_bias) ? Values([this, ours, begin, count, rows, outputs] {
          return padded(rows_of(weights_.bias(ours + ".bias", outputs), begin, count), rows, 1);
        })
                                       : Values());
  }

  void mlp() {
    norm(names_.feed_forward_norm, "feed_forward_norm");
    const int64_t width = model_.feed_forward_size(), theirs = class_d_ff(one_, model_);
    if (!model_.is_gated()) {
      up_part(names_.up, 0, width, theirs);
    } else if (names_.gate.empty()) {
      up_part(names_.up, 0, 2 * width, 2 * width);
    } else {
      up_part(names_.gate, 0, width, width);
      up_part(names_.up, width, width, width);
    }
    const std::string ours = block_ + "feed_forward.down";
    linear(
        names_.down, model_.d_model, theirs,
        [this, ours, theirs] { return padded(weights_.matrix(ours + ".weight"), model_.d_model, theirs); },
        bias_if(one_.has_mlp_bias, ours, model_.d_model));
    norm(names_.post_feed_forward_norm, "post_feed_forward_norm");
  }

  // An MLP whose output is 0.
  void empty_mlp() {
    norm(names_.feed_forward_norm, "none");
    const int64_t width = class_d_ff(one_, model_);
    const auto add_zeros = [&](std::string_view name, int64_t rows, int64_t columns) {
      linear(
          name, rows, columns, [rows, columns] { return zeros(rows, columns); },
          writes_bias(one_.has_mlp_bias) ? Values([rows] { return zeros(rows); }) : Values());
    };
    const bool is_fused = one_.is_gated && names_.gate.empty();
    if (!names_.gate.empty()) add_zeros(names_.gate, width, model_.d_model);
    add_zeros(names_.up, is_fused ? 2 * width : width, model_.d_model);
    add_zeros(names_.down, model_.d_model, width);
    norm(names_.post_feed_forward_norm, "none");
  }

  void head() {
    add(std::string(names_.head) + ".weight", {model_.vocab_size, model_.d_model}, [this] {
      return scaled(weights_.matrix(model_.tie_embeddings ? "token_embedding.weight" : "head.weight"), head_factor());
    });
  }

  const ModelClass& one_;
  const TensorNames& names_;
  const ModelWeights& weights_;
  const GptConfig& model_;
  const int64_t queries_, keys_;  // rows of the query and of the key projection
  std::string layer_, block_;     // prefixes of the names: theirs and ours
  std::vector<ExportTensor> tensors_;
};

}  // namespace

bool has_tied_head(const ModelClass& one, const GptConfig& model) {
  return model.tie_embeddings && !one.gain_is_offset && head_factor(one, model) == 1;
}

std::vector<ExportTensor> export_tensors(const ModelClass& one, const ModelWeights& weights) {
  // The tensors refer to the exporter, which therefore lives as long as they do.
  const auto exporter = std::make_shared<Exporter>(one, weights);
  std::vector<ExportTensor> tensors = exporter->tensors();
  for (ExportTensor& tensor : tensors) {
    tensor.values = [exporter, values = std::move(tensor.values)] { return values(); };
  }
  return tensors;
}

}  // namespace heed::train
