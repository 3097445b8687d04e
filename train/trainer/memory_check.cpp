#include "train/trainer/memory_check.hpp"

#include <algorithm>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/core/memory_pool.hpp"
#include "train/output/output.hpp"

namespace heed::train {
namespace {

constexpr double kCertainActivations = 0.7, kNearMiss = 0.9;
constexpr int64_t kSmallBlocks = int64_t{16} << 20;  // the pool's block for small tensors, allocated with the first one

// Lower bound on the memory of the data, from its estimate by data_bytes() (memory_table.cpp).
int64_t certain_data(const Config& config, int64_t estimate) {
  if (config.data.source != DataSource::text) return estimate;
  switch (config.data.tokenizer) {
    case data::TokenizerKind::byte:
      return estimate;
    case data::TokenizerKind::character:
      return estimate / 4;  // a UTF-8 character has at most four bytes
    case data::TokenizerKind::bpe:
      break;
  }
  return 0;
}

}  // namespace

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
  require_memory({.bytes = bytes + kLibraries,
                  .what = "a checkpoint, made in memory at each save,",
                  .advice = "lower model.d_model or model.num_layers, or take optim.optimizer = \"sgd\""});
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
