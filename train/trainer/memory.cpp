#include "train/trainer/memory.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/core/memory_pool.hpp"
#include "autograd/ops/linear_cross_entropy.hpp"
#include "data/synthetic/hidden_markov_dataset.hpp"
#include "data/synthetic/markov_chain.hpp"
#include "data/synthetic/modular_addition_dataset.hpp"
#include "data/synthetic/uniform_prefix_dataset.hpp"
#include "nn/gpt_config.hpp"
#include "train/output/output.hpp"

namespace heed::train {

namespace {

constexpr double kMostBytes = 1e18;  // so that the sum of all items fits into 64 bits

int64_t to_bytes(double bytes) { return static_cast<int64_t>(std::min(bytes, kMostBytes)); }

// Elements per token that the forward pass of one Transformer block saves for backward.
double elements_per_block(const nn::GptConfig& m) {
  const int64_t kv = m.kv_heads() * m.head_size();
  const int64_t attention = 3 * m.d_model + 2 * kv + m.num_heads;  // norm output, Q, attention output, K, V, lse
  // The heads before the norm, and rstd of each.
  const int64_t qk_norm = m.qk_norm ? m.d_model + 2 * kv + m.num_heads + m.kv_heads() : 0;
  const int64_t feed_forward = m.attention_only ? 0 : m.d_model + m.feed_forward_outputs() + m.feed_forward_size();
  // A norm saves its input, which is the residual stream or, with a sandwich, also the output of the sublayer.
  const int64_t sublayers = m.attention_only ? 1 : 2, statistics = 2;
  const int64_t norms = sublayers * (m.norm_position == nn::NormPosition::sandwich ? 2 : 1);
  return static_cast<double>(attention + qk_norm + feed_forward + norms * (m.d_model + statistics));
}

double elements_outside(const nn::GptConfig& m) {
  const int64_t embedding = (m.embedding_norm ? 3 : 2) * m.d_model, last_norm = 2 * m.d_model;
  return static_cast<double>(embedding + last_norm);
}

// The table of cosines and sines, in the accumulation dtype.
double rope_table_elements(const nn::GptConfig& m) {
  if (m.position != nn::Position::rope) return 0;
  return static_cast<double>(m.seq_len) * static_cast<double>(m.rope_columns());
}

// Values that the optimizer keeps for all parameters.
double optimizer_values(const OptimConfig& optim, const nn::ParameterCount& count) {
  if (optim.optimizer == OptimizerKind::sgd) return optim.momentum > 0 ? count.all() : 0;
  return optim.optimizer == OptimizerKind::adamw ? 2 * count.all() : 2 * count.all() - count.hidden;
}

double data_bytes(const DataConfig& data) {
  if (data.source == DataSource::text) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(data.path, unknown);
    return unknown ? 0 : static_cast<double>(size) * sizeof(int32_t);
  }
  switch (data.source) {
    case DataSource::ngram:
    case DataSource::skip: {
      const int64_t num_offsets = data.num_alphas() - 1;
      if (data.prefix == SequencePrefix::uniform)
        return static_cast<double>(data::uniform_prefix_bytes(data.vocab_size, num_offsets));
      const int64_t memory =
          data.source == DataSource::ngram ? num_offsets : *std::max_element(data.offsets.begin(), data.offsets.end());
      return static_cast<double>(data::markov_bytes(data.vocab_size, num_offsets, memory));
    }
    case DataSource::hidden_markov:
      return static_cast<double>(data::hidden_markov_bytes(data.vocab_size, data.num_states));
    case DataSource::modular_addition:
      return static_cast<double>(data::modular_addition_bytes(data.modulus));
    default:
      return 0;  // no table, and a token file is not loaded into memory
  }
}

std::string data_keys(const DataConfig& data) {
  switch (data.source) {
    case DataSource::ngram:
      return "data.vocab_size, data.order";
    case DataSource::skip:
      return "data.vocab_size, data.offsets";
    case DataSource::hidden_markov:
      return "data.vocab_size, data.num_states";
    case DataSource::modular_addition:
      return "data.modulus";
    case DataSource::markov_in_context:
    case DataSource::repeat:
    case DataSource::dyck:
    case DataSource::addition:
      return "nothing: the sequences are drawn without a table";
    case DataSource::text:
      return data.split == data::TextSplit::lines ? "a shorter text"
                                                  : "a token file (heed data prepare, then data.source = \"tokens\")";
    case DataSource::tokens:
      break;
  }
  return "nothing: a token file stays on the disk";
}

// A buffer of 1 MiB (checkpoint_file.cpp) and the metadata of the file.
constexpr double kSaveBuffers = 2 << 20;

// Whether the moments of a parameter group are in several tensors, so that a save joins copies of them
// (GradBuckets::whole()).
bool has_moments_in_parts(const Config& config) {
  const OptimConfig& o = config.optim;
  return config.train.shard_optimizer || o.optimizer == OptimizerKind::muon || o.embedding_lr_scale != 1 ||
         o.head_lr_scale != 1 || config.model.width_multiplier() != 1;
}

// Values of the tensors that rank 0 copies for one save. On CUDA these are all tensors of the checkpoint, since they
// are written from the host; on the CPU most are written from where they are.
double copied_values(const Config& config, const nn::ParameterCount& count, double moments, Device device) {
  if (device == Device::cuda) return count.all() + moments;
  if (!has_moments_in_parts(config)) return 0;
  // The second moment is joined as if the matrices that Muon updates had it, too.
  if (config.optim.optimizer == OptimizerKind::muon) moments += count.hidden;
  const bool shards_weights = config.train.shard_optimizer && config.train.precision == DType::bf16;
  return shards_weights ? count.all() + moments : moments;
}

constexpr double kCertainActivations = 0.7, kNearMiss = 0.9;
constexpr int64_t kSmallBlocks = int64_t{16} << 20;  // the pool's block for small tensors, allocated with the first one

// Lower bound on the memory of the data, from its estimate by data_bytes().
int64_t certain_data(const Config& config, int64_t estimate) {
  if (config.data.source != DataSource::text) return estimate;
  switch (config.data.tokenizer) {
    case data::TokenizerKind::byte:
      return estimate;
    case data::TokenizerKind::character:
      return estimate / 4;  // a UTF-8 character has at most four bytes
    case data::TokenizerKind::bpe:
    case data::TokenizerKind::file:
      break;
  }
  return 0;
}

}  // namespace

int64_t least_vocab_size(const Config& config) {
  if (config.model.vocab_size > 0) return config.model.vocab_size;
  if (config.data.source != DataSource::text) return 1;
  switch (config.data.tokenizer) {
    case data::TokenizerKind::byte:
      return 256;
    case data::TokenizerKind::bpe:
      return config.data.vocab_size;
    case data::TokenizerKind::file:
      return 256;
    case data::TokenizerKind::character:
      break;
  }
  return 1;
}

int64_t MemoryEstimate::total() const {
  return parameters + gradients + optimizer + std::max(activations, checkpoint) + data + batch + layer_norms;
}

MemoryEstimate estimate_memory(const Config& config, Device device) {
  nn::GptConfig m = config.model;
  m.vocab_size = least_vocab_size(config);
  const TrainConfig& t = config.train;
  const auto element = static_cast<double>(size_bytes(t.precision));
  const auto exact = static_cast<double>(size_bytes(accumulation_dtype(t.precision)));
  const nn::ParameterCount count = nn::count_parameters(m);
  const double sharing = t.shard_optimizer ? static_cast<double>(t.ranks) : 1;
  const double gradients = count.all() * exact;
  const double average = config.optim.ema_decay > 0 ? count.all() : 0;
  const double moments = optimizer_values(config.optim, count) + average;
  double parameters = gradients;
  if (element != exact) parameters += count.all() * element - count.matrices * exact * (sharing - 1) / sharing;
  const auto layers = static_cast<double>(m.num_layers), width = static_cast<double>(m.d_model);
  const double blocks = t.recompute ? layers * width + elements_per_block(m) : layers * elements_per_block(m);
  const double tokens = static_cast<double>(t.rows_per_micro_batch()) * static_cast<double>(m.seq_len);
  const auto logits = static_cast<double>(linear_cross_entropy_chunk_bytes(
      t.rows_per_micro_batch() * m.seq_len, m.vocab_size, t.precision, device, {.softcap = m.logit_softcap}));
  const double activations = tokens * (blocks + elements_outside(m)) * element + rope_table_elements(m) * exact;
  const double step_tokens = static_cast<double>(t.rows_per_rank()) * static_cast<double>(m.seq_len);
  return {.parameters = to_bytes(parameters),
          .gradients = to_bytes(gradients),
          .optimizer = to_bytes(moments * exact / sharing),
          .activations = to_bytes(activations + logits),
          .checkpoint = to_bytes(copied_values(config, count, moments, device) * exact + kSaveBuffers),
          .data = to_bytes(data_bytes(config.data)),
          .data_keys = data_keys(config.data),
          .batch = to_bytes(2 * step_tokens * sizeof(int32_t)),  // inputs and targets
          .layer_norms = t.log_layers ? to_bytes(gradients) : 0};
}

std::vector<MemoryItem> memory_items(const MemoryEstimate& e) {
  const std::string sizes = "model.d_model, model.num_layers";
  std::vector<MemoryItem> items = {
      {"parameters", e.parameters, sizes},
      {"gradients", e.gradients, sizes},
      {"optimizer", e.optimizer,
       "optim.optimizer = \"sgd\" without momentum; with several ranks train.shard_optimizer = "
       "true"},
      {"activations", e.activations,
       "train.micro_batch_size or train.batch_size, train.recompute = true, model.seq_len"},
      {"checkpoint", e.checkpoint, sizes + " (while a checkpoint is saved, when activations are free)"},
      {"data", e.data, e.data_keys},
      {"batch", e.batch, "train.batch_size, model.seq_len"}};
  if (e.layer_norms > 0) items.push_back({"layer norms", e.layer_norms, "train.log_layers = false"});
  return items;
}

std::string memory_table(const MemoryEstimate& estimate) {
  std::string text = fmt::format("memory (estimate) {:>7}; reduce it with\n", human_bytes(estimate.total()));
  for (const MemoryItem& item : memory_items(estimate)) {
    text += fmt::format("  {:<11} {:>11}  {}\n", item.name, human_bytes(item.bytes), item.keys);
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

HostMemory host_memory(const Config& config, Device device, bool data_is_loaded, bool saves) {
  MemoryEstimate e = estimate_memory(config, device);
  if (!saves) e.checkpoint = 0;
  if (device == Device::cuda) e.parameters = e.gradients = e.optimizer = e.activations = 0;
  const std::vector<MemoryItem> items = memory_items(e);
  const int64_t small_blocks = device == Device::cuda ? 0 : kSmallBlocks;
  HostMemory need;
  if (data_is_loaded) need.loaded_data = std::exchange(e.data, 0);
  need.expected = e.total() + small_blocks;
  need.largest = *std::max_element(items.begin(), items.end(),
                                   [](const MemoryItem& a, const MemoryItem& b) { return a.bytes < b.bytes; });
  e.data = certain_data(config, e.data);
  e.activations = static_cast<int64_t>(kCertainActivations * static_cast<double>(e.activations));
  need.certain = e.total() + small_blocks;
  return need;
}

std::optional<std::string> check_host_memory(const HostMemory& need, const std::optional<MemoryLimit>& limit) {
  if (!limit) return std::nullopt;
  const std::string more = need.loaded_data > 0 ? " in addition to the loaded data" : "";
  const std::string what = fmt::format("this run needs about {} of memory{} (largest part of the run: {}, {}), {}",
                                       human_bytes(need.expected), more, need.largest.name,
                                       human_bytes(need.largest.bytes), describe(*limit));
  require<MemoryError>(need.certain <= limit->free_bytes + limit->swap_bytes,
                       "out of memory before the first step: {}; reduce it with {}", what, need.largest.keys);
  if (static_cast<double>(need.expected) <= kNearMiss * static_cast<double>(limit->free_bytes)) return std::nullopt;
  return fmt::format("{}: it may end for lack of memory; reduce it with {}", what, need.largest.keys);
}

void require_host_memory(const Config& config, Device device, bool data_is_loaded, bool saves) {
  const HostMemory need = host_memory(config, device, data_is_loaded, saves);
  const std::optional<std::string> notice = check_host_memory(need, memory_limit());
  if (notice && data_is_loaded && saves) write_notice(fmt::format("heed: notice: {}\n", *notice));
}

void require_checkpoint_memory(const Config& config, Device device) {
  constexpr int64_t kLibraries = int64_t{16} << 20;  // allocated by HDF5 and oneDNN until then
  const int64_t bytes = estimate_memory(config, device).checkpoint;
  require_memory(
      {.bytes = bytes + bytes / 8 + kLibraries,  // the pool finds no place for every copy in what is free
       .what = "the save of a checkpoint",
       .advice = "lower model.d_model or model.num_layers, or take optim.optimizer = \"sgd\" without momentum"});
}

void advise_on_training_memory() {
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer}) {
    set_memory_advice(category, "lower model.d_model or model.num_layers");
  }
  for (const MemoryCategory category : {MemoryCategory::activations, MemoryCategory::workspace}) {
    set_memory_advice(
        category, "lower train.micro_batch_size (or train.batch_size) or model.seq_len, or set train.recompute = true");
  }
}

}  // namespace heed::train
