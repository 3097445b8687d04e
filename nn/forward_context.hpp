// Arguments of a forward pass besides its tokens: training mode, random state of dropout, KV cache, and hook.
#pragma once

#include "autograd/core/philox.hpp"
#include "autograd/ops/attention/documents.hpp"
#include "nn/forward_hook.hpp"
#include "nn/kv_cache.hpp"

namespace heed::nn {

// The dropout layers of the model. Together with the layer index, the place is the site of the random numbers, so that
// they do not depend on the order of calls.
enum class DropoutPlace : uint32_t { embedding = 0, attention = 1, attention_residual = 2, feed_forward_residual = 3 };

struct ForwardContext {
  bool training = false;
  uint32_t seed = 0;                 // of the dropout masks
  DeviceScalar<uint64_t> step = {};  // training step, 0 in the first: for random numbers
  int64_t first_row = 0;             // index in the global batch of the first row of this batch
  // The tokens follow those in the cache, and their keys and values are appended to it. nullptr: the tokens are the
  // whole sequence.
  KvCache* cache = nullptr;
  Tensor rope_table = {};         // of RoPE, which the model sets: a row for each position of the tokens
  DocumentRanges documents = {};  // of the tokens, whose positions then count from the document's beginning
  ForwardHook* hook = nullptr;    // qkv() and heads() are not called with a cache

  int64_t first_position() const { return cache == nullptr ? 0 : cache->length(); }

  RandomStream random(int64_t layer, DropoutPlace place) const {
    return {.seed = seed,
            .site = random_site(RandomDomain::dropout, static_cast<uint32_t>(layer), static_cast<uint32_t>(place)),
            .step = step};
  }
};

}  // namespace heed::nn
