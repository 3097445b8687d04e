// What one forward pass needs besides its tokens: whether dropout acts, which random numbers it takes, and what came
// before the tokens.
#pragma once

#include "autograd/core/philox.hpp"
#include "nn/kv_cache.hpp"

namespace heed::nn {

// Where dropout acts: with the layer's number this is the site of the random numbers, whatever the order of calls.
enum class DropoutPlace : uint32_t { embedding = 0, attention = 1, attention_residual = 2, feed_forward_residual = 3 };

struct ForwardContext {
  bool training = false;
  uint32_t seed = 0;                        // train.seed
  uint64_t update = 0;                      // number of the update
  const uint64_t* device_update = nullptr;  // on CUDA: where it stands in the device's memory, instead
  int64_t first_row = 0;                    // row of the global batch that this batch starts with
  // The tokens stand behind those of the cache, and their keys and values go into it. None: they are the whole
  // sequence.
  KvCache* cache = nullptr;

  int64_t first_position() const { return cache == nullptr ? 0 : cache->length(); }

  RandomStream random(int64_t layer, DropoutPlace place) const {
    return {.seed = seed,
            .site = random_site(RandomDomain::dropout, static_cast<uint32_t>(layer), static_cast<uint32_t>(place)),
            .update = update,
            .device_update = device_update};
  }
};

}  // namespace heed::nn
