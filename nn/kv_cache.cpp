#include "nn/kv_cache.hpp"

#include "autograd/core/device.hpp"
#include "autograd/ops/copy.hpp"

namespace heed::nn {

KvCache::KvCache(const GptConfig& config)
    : capacity_(config.seq_len),
      columns_(config.kv_heads() * config.head_size()),
      layers_(static_cast<size_t>(config.num_layers)) {}

KvCache::KeysAndValues KvCache::append(int64_t layer, const KeysAndValues& fresh) {
  require<ShapeError>(layer >= 0 && layer < static_cast<int64_t>(layers_.size()), "kv cache: layer {} of {}", layer,
                      layers_.size());
  const int64_t tokens = fresh.keys.rank() == 3 ? fresh.keys.shape()[1] : 0;
  require<ShapeError>(fresh.keys.shape() == Shape{1, tokens, columns_} && fresh.values.shape() == fresh.keys.shape(),
                      "kv cache: keys {} and values {} must both be (1, T, {})", fresh.keys.shape(),
                      fresh.values.shape(), columns_);
  require<ShapeError>(tokens <= capacity_ - length_, "kv cache: {} tokens are held, {} more exceed its capacity of {}",
                      length_, tokens, capacity_);
  KeysAndValues& held = layers_.at(static_cast<size_t>(layer));
  const auto append_to = [&](Tensor& all, const Tensor& rows) {
    if (!all) all = empty({1, capacity_, columns_}, rows.dtype(), rows.device());
    require<DTypeError>(all.dtype() == rows.dtype(), "kv cache: holds {}, not {}", all.dtype(), rows.dtype());
    HEED_DISPATCH(rows.device(), copy_elements, all.slice(length_ * columns_, rows.shape()).ref(), rows);
    return all.slice(0, {1, length_ + tokens, columns_});
  };
  return {append_to(held.keys, fresh.keys), append_to(held.values, fresh.values)};
}

void KvCache::advance(int64_t tokens) {
  require<ShapeError>(tokens >= 0 && tokens <= capacity_ - length_,
                      "kv cache: {} tokens are held, {} more exceed its capacity of {}", length_, tokens, capacity_);
  length_ += tokens;
}

}  // namespace heed::nn
