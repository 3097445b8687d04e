// Dropout of weights: a counter of the generator has the words of four neighbouring keys, and is drawn once.
#pragma once

#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/attention/attention_mask.cuh"

namespace heed::cuda {

// The random words of one head of a sequence.
class KeptWeights {
 public:
  __device__ KeptWeights(const AttentionShape& s, int batch, int head)
      : random_(s.random), threshold_(s.threshold), fours_((static_cast<uint64_t>(s.keys) + 3) / 4) {
    first_ =
        ((s.first_row + static_cast<uint64_t>(batch)) * static_cast<uint64_t>(s.heads) + static_cast<uint64_t>(head)) *
        static_cast<uint64_t>(s.queries) * fours_;
    if (random_.device_update != nullptr) random_.update = *random_.device_update;
    random_.device_update = nullptr;
  }

  // Bit i: whether the weight of this query and key `key` + i is kept; key a multiple of 4. Neither has to exist.
  __device__ unsigned four(int query, int key) const {
    const PhiloxWords words =
        random_.words(first_ + static_cast<uint64_t>(query) * fours_ + static_cast<uint64_t>(key / 4));
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= static_cast<unsigned>(words.word[i] >= threshold_) << i;
    return bits;
  }

 private:
  RandomStream random_;
  uint32_t threshold_;
  uint64_t fours_, first_;  // counters of a query, and before the first query
};

// Lanes that differ in log2(Lanes) bits from `Stride` on put their four bits together: those of number n, which is what
// these bits of the lane say, become bits 4n … 4n + 3 for all of them.
template <int Lanes, int Stride>
__device__ __forceinline__ unsigned share_bits(unsigned bits, int number) {
  bits <<= 4 * number;
#pragma unroll
  for (int offset = 1; offset < Lanes; offset *= 2) bits |= __shfl_xor_sync(kFullWarp, bits, offset * Stride);
  return bits;
}

}  // namespace heed::cuda
