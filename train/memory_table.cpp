#include "train/memory_table.hpp"

#include <algorithm>

namespace heed::train {
namespace {

// Elements that a forward keeps for backward, per token.
int64_t elements_per_block(const nn::GptConfig& m) {
  const int64_t kv = m.kv_heads() * m.head_size();
  const int64_t attention = 3 * m.d_model + 2 * kv + m.num_heads;  // norm out, queries, mixed, keys, values, lse
  const int64_t feed_forward = m.d_model + 2 * m.feed_forward_size();
  const int64_t residuals = 2 * m.d_model, statistics = 4;
  return attention + feed_forward + residuals + statistics;
}

int64_t elements_outside(const nn::GptConfig& m) {
  const int64_t embedding = 2 * m.d_model, last_norm = 2 * m.d_model;
  return embedding + last_norm + m.vocab_size;  // the gradient of the logits takes their place
}

}  // namespace

MemoryEstimate estimate_memory(const Config& config, const nn::Gpt& model) {
  const DType precision = config.train.precision;
  const int64_t element = size_bytes(precision), exact = size_bytes(compute_dtype(precision));
  const nn::GptConfig& m = model.config();
  MemoryEstimate estimate;
  const int64_t all = model.parameters().parameters(), matrices = model.parameters().groups()[0].parameters;
  const int64_t sharing = config.train.shard_optimizer ? config.train.ranks : 1;
  estimate.gradients = all * exact;
  estimate.parameters = estimate.gradients;
  if (element != exact) estimate.parameters += matrices * element - matrices * exact * (sharing - 1) / sharing;
  estimate.optimizer = config.optim.optimizer == OptimizerKind::adamw ? 2 * estimate.gradients / sharing : 0;
  const int64_t tokens = config.train.rows_per_micro_batch() * m.seq_len;
  const int64_t blocks =
      config.train.recompute ? m.num_layers * m.d_model + elements_per_block(m) : m.num_layers * elements_per_block(m);
  estimate.activations = tokens * (blocks + elements_outside(m)) * element;
  return estimate;
}

std::string human_bytes(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, units[unit]);
}

std::string memory_table(const MemoryEstimate& e) {
  struct Line {
    MemoryCategory category;
    int64_t estimate;
    const char* keys;
  };
  const Line lines[] = {
      {MemoryCategory::parameters, e.parameters, "model.d_model, model.num_layers"},
      {MemoryCategory::gradients, e.gradients, "the same"},
      {MemoryCategory::optimizer, e.optimizer,
       "optim.optimizer = \"sgd\"; with several ranks train.shard_optimizer = true"},
      {MemoryCategory::activations, e.activations, "train.micro_batch_size, train.recompute = true, model.seq_len"}};
  std::string text = fmt::format("memory        {:>11}  about, lowered by\n", human_bytes(e.total()));
  for (const Line& line : lines) {
    text += fmt::format("  {:<11} {:>11}  {}\n", name(line.category), human_bytes(line.estimate), line.keys);
  }
  return text;
}

std::string measured_memory(const MemoryReport& report) {
  std::string text = fmt::format("memory        {:>11}  measured peak:", human_bytes(report.total.peak_bytes));
  for (int i = 0; i < kMemoryCategories; ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", name(static_cast<MemoryCategory>(i)),
                        human_bytes(report.category[static_cast<size_t>(i)].peak_bytes));
  }
  return text;
}

}  // namespace heed::train
