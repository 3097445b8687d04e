#include "train/trainer/parameter_options.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace heed::train {
namespace {

using Entry = nn::ParameterStore::Entry;

bool is_hidden_matrix(const Entry& entry) { return entry.shape.rank() == 2 && entry.name.starts_with("blocks."); }

// The rows of the matrices that a parameter holds, one below the other.
std::vector<int64_t> rows_of(const nn::GptConfig& c, const Entry& entry) {
  const int64_t rows = entry.shape[0], head = c.head_size();
  if (entry.name.ends_with("attention.qkv.weight"))
    return {c.num_heads * head, c.kv_heads() * head, c.kv_heads() * head};
  if (!entry.name.ends_with("feed_forward.up.weight")) return {rows};
  return std::vector<int64_t>(static_cast<size_t>(rows / c.feed_forward_size()), c.feed_forward_size());
}

// muP: an optimizer step must change the outputs of a hidden layer equally at every width. The elements of an AdamW
// update have the same size at every width, so their sum over the inputs (fan-in) grows like m. The spectral norm of a
// Muon update is its scale: with "original" it depends on rows / columns only, with "match_rms_adamw" it grows like
// sqrt(m).
double hidden_lr_scale(const Config& config) {
  const double m = config.model.width_multiplier();
  if (config.optim.optimizer != OptimizerKind::muon) return 1 / m;
  return config.optim.muon_scale == MuonScale::original ? 1 : 1 / std::sqrt(m);
}

double learning_rate_scale(const Config& config, const Entry& entry) {
  const OptimConfig& c = config.optim;
  if (is_hidden_matrix(entry)) return hidden_lr_scale(config);
  if (entry.shape.rank() < 2) return c.vector_lr_scale;
  return entry.name == "head.weight" ? c.head_lr_scale : c.embedding_lr_scale;
}

}  // namespace

std::vector<comm::EntryOptions> entry_options(const Config& config, const nn::ParameterStore& store) {
  const OptimConfig& c = config.optim;
  const bool is_muon = c.optimizer == OptimizerKind::muon;
  std::vector<comm::EntryOptions> options;
  for (const Entry& entry : store.entries()) {
    comm::EntryOptions& one = options.emplace_back();
    one.is_hidden_matrix = is_muon && is_hidden_matrix(entry);
    one.learning_rate_scale = learning_rate_scale(config, entry);
    // Decoupled weight decay is multiplied by the learning rate: their product is the same at every width.
    if (is_hidden_matrix(entry)) one.weight_decay_scale = 1 / one.learning_rate_scale;
    if (is_muon && !one.is_hidden_matrix) one.learning_rate_scale *= c.adamw_learning_rate / c.learning_rate;
  }
  return options;
}

std::vector<Tensor> hidden_matrices(const nn::GptConfig& config, const nn::ParameterStore& store) {
  std::vector<Tensor> matrices;
  for (const Entry& entry : store.entries()) {
    if (!is_hidden_matrix(entry)) continue;
    const int64_t columns = entry.shape[1];
    int64_t row = 0;
    for (const int64_t rows : rows_of(config, entry)) {
      matrices.push_back(entry.tensor.grad().slice(row * columns, {rows, columns}));
      row += rows;
    }
    require<ShapeError>(row == entry.shape[0], "parameter '{}' has {} rows, its matrices have {}", entry.name,
                        entry.shape[0], row);
  }
  return matrices;
}

}  // namespace heed::train
