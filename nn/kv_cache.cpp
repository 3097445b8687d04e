#include "nn/kv_cache.hpp"

#include <algorithm>
#include <map>

#include "autograd/core/device.hpp"
#include "autograd/core/host_limits.hpp"
#include "autograd/ops/copy.hpp"

namespace heed::nn {
namespace {

void copy(const Tensor& to, const Tensor& from) { HEED_DISPATCH(to.device(), copy_elements, to.ref(), from); }

}  // namespace

KvCache::KvCache(const GptConfig& config, int64_t batch, int64_t capacity)
    : batch_(batch),
      capacity_(capacity == 0 ? config.seq_len : capacity),
      columns_(config.kv_heads() * config.head_size()),
      max_fresh_(capacity_) {
  require<ShapeError>(batch >= 1 && capacity >= 0, "kv cache: {} sequences of {} tokens, there must be at least 1",
                      batch, capacity);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    // Room for the window of the next token and for a chunk of new rows: the larger the chunk, the fewer moves.
    constexpr int64_t kLeastChunk = 128;
    const int64_t window = config.window(i), chunk = std::max(window / 4, kLeastChunk);
    const bool is_rolling = window > 0 && window - 1 + chunk < capacity_;
    if (is_rolling) max_fresh_ = std::min(max_fresh_, chunk);
    layers_.push_back({{}, window, is_rolling ? window - 1 + chunk : capacity_});
  }
}

Tensor KvCache::lengths(int64_t layer, int64_t fresh, Device device) const {
  if (padding_.empty()) return {};
  std::vector<int32_t> lengths;
  for (const int64_t padding : padding_) {
    const int64_t tokens = std::max<int64_t>(0, length_ + fresh - padding);
    lengths.push_back(static_cast<int32_t>(std::min(tokens, rows(layer) + fresh)));
  }
  return from_tokens({batch_}, lengths, device);
}

void KvCache::clear(std::vector<int64_t> padding) {
  require<ShapeError>(padding.empty() || std::ssize(padding) == batch_, "kv cache: padding of {} sequences, it has {}",
                      padding.size(), batch_);
  const auto is_none = [](int64_t rows) { return rows == 0; };
  for (const int64_t rows : padding) {
    require<ShapeError>(0 <= rows && rows < capacity_, "kv cache: padding of {} rows, it must be 0 to {}", rows,
                        capacity_ - 1);
  }
  length_ = 0;
  for (Layer& layer : layers_) layer.dropped = 0;
  padding_ = std::move(padding);
  if (std::all_of(padding_.begin(), padding_.end(), is_none)) padding_.clear();
}

void KvCache::keep(const std::vector<int64_t>& sequences) {
  const auto count = std::ssize(sequences);
  require<ShapeError>(count >= 1, "kv cache: at least 1 sequence must be kept");
  for (int64_t i = 0; i < count; ++i) {
    require<ShapeError>((i == 0 ? 0 : sequences[i - 1] + 1) <= sequences[i] && sequences[i] < batch_,
                        "kv cache: sequences to keep must be 0 to {} and ascending, not {}", batch_ - 1, sequences[i]);
  }
  for (Layer& layer : layers_) {
    const int64_t size = layer.memory_rows * columns_;
    for (Tensor* all : {&layer.keys, &layer.values}) {
      if (!*all) continue;
      for (int64_t i = 0; i < count; ++i) {
        const Shape rows{length_ - layer.dropped, columns_};
        if (sequences[i] != i) copy(all->slice(i * size, rows), all->slice(sequences[i] * size, rows));
      }
      *all = all->slice(0, {count, layer.memory_rows, columns_});
    }
  }
  for (int64_t i = 0; i < count && !padding_.empty(); ++i) padding_[i] = padding_[sequences[i]];
  if (!padding_.empty()) padding_.resize(count);
  batch_ = count;
}

// If the memory has no room for `fresh` more rows, drops those before the sliding window of the first new token.
void KvCache::make_room(Layer& layer, int64_t fresh) {
  const int64_t held = length_ - layer.dropped;
  if (held + fresh <= layer.memory_rows) return;
  const int64_t kept = std::min(held, layer.window - 1);
  for (Tensor* all : {&layer.keys, &layer.values}) {
    // Into new memory: source and destination may overlap otherwise.
    const Tensor moved = empty(all->shape(), all->dtype(), all->device());
    for (int64_t b = 0; b < batch_ && kept > 0; ++b) {
      const int64_t first = b * layer.memory_rows;
      const Shape rows{kept, columns_};
      copy(moved.slice(first * columns_, rows), all->slice((first + held - kept) * columns_, rows));
    }
    *all = moved;
  }
  layer.dropped = length_ - kept;
}

const KvCache::Layer& KvCache::append(int64_t layer, const KeysAndValues& fresh) {
  require<ShapeError>(layer >= 0 && layer < std::ssize(layers_), "kv cache: layer {} of {}", layer, layers_.size());
  const int64_t rows = fresh.keys.rank() == 3 ? fresh.keys.shape()[1] : 0;
  require<ShapeError>(fresh.keys.shape() == Shape{batch_, rows, columns_} && fresh.values.shape() == fresh.keys.shape(),
                      "kv cache: keys {} and values {} must both be ({}, T, {})", fresh.keys.shape(),
                      fresh.values.shape(), batch_, columns_);
  require<ShapeError>(rows <= capacity_ - length_, "kv cache: {} tokens are held, {} more exceed its capacity of {}",
                      length_, rows, capacity_);
  require<ShapeError>(rows <= max_fresh_,
                      "kv cache: {} tokens appended at once, at most {} are allowed with its sliding window", rows,
                      max_fresh_);
  Layer& held = layers_.at(static_cast<size_t>(layer));
  if (held.keys) make_room(held, rows);
  const int64_t first = length_ - held.dropped;
  const auto append_to = [&](Tensor& all, const Tensor& tokens) {
    if (!all) all = empty({batch_, held.memory_rows, columns_}, tokens.dtype(), tokens.device());
    require<DTypeError>(all.dtype() == tokens.dtype(), "kv cache: holds {}, not {}", all.dtype(), tokens.dtype());
    for (int64_t b = 0; b < batch_; ++b) {
      const Shape shape{rows, columns_};
      copy(all.slice((b * held.memory_rows + first) * columns_, shape), tokens.slice(b * rows * columns_, shape));
    }
  };
  append_to(held.keys, fresh.keys);
  append_to(held.values, fresh.values);
  return held;
}

void KvCache::advance(int64_t rows) {
  require<ShapeError>(rows >= 0 && rows <= capacity_ - length_,
                      "kv cache: {} tokens are held, {} more exceed its capacity of {}", length_, rows, capacity_);
  length_ += rows;
}

int64_t KvCache::memory_rows() const {
  int64_t rows = 0;
  for (const Layer& layer : layers_) rows += layer.memory_rows;
  return rows;
}

int64_t KvCache::bytes() const {
  int64_t bytes = 0;
  for (const Layer& layer : layers_) {
    for (const Tensor* all : {&layer.keys, &layer.values}) {
      if (*all) bytes += all->numel() * static_cast<int64_t>(size_bytes(all->dtype()));
    }
  }
  return bytes;
}

std::string KvCache::describe() const {
  const Tensor& keys = layers_.front().keys;
  std::map<int64_t, int64_t> layers;  // by the rows of their memory
  for (const Layer& layer : layers_) ++layers[layer.memory_rows];
  std::string rows;
  for (const auto& [memory, count] : layers) {
    rows += fmt::format("{}{} layer{} x {} tokens", rows.empty() ? "" : " + ", count, count == 1 ? "" : "s", memory);
  }
  return fmt::format("{}{} x 2 x {}{} = {}", batch_ == 1 ? "" : fmt::format("{} sequences x ", batch_),
                     layers.size() == 1 ? rows : fmt::format("({})", rows), columns_,
                     keys ? fmt::format(" {}", keys.dtype()) : "", human_bytes(bytes()));
}

int64_t kv_cache_bytes(const GptConfig& config, DType dtype) {
  return 2 * KvCache(config).memory_rows() * config.kv_heads() * config.head_size() *
         static_cast<int64_t>(size_bytes(dtype));
}

}  // namespace heed::nn
