// Dropout of the attention probabilities: one Philox counter holds the random words of four adjacent keys and is
// computed once.
#pragma once

#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/attention/cuda/problem.cuh"

namespace heed::cuda {

// The dropout mask of one head of one sequence.
class KeptWeights {
 public:
  __device__ KeptWeights(const AttentionShape& s, int batch, int head)
      : random_(s.random), threshold_(s.threshold), fours_((static_cast<uint64_t>(s.keys) + 3) / 4) {
    first_ =
        ((s.first_row + static_cast<uint64_t>(batch)) * static_cast<uint64_t>(s.heads) + static_cast<uint64_t>(head)) *
        static_cast<uint64_t>(s.queries) * fours_;
    random_.step = random_.step.get();  // read once
  }

  // Bit i is set if P(query, key + i) is kept; `key` is a multiple of 4. Neither the query nor the keys have to exist.
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
  uint64_t fours_, first_;  // counters per query, and the counter of query 0, key 0
};

// Combines the four bits of each of Lanes lanes, whose lane indices differ in log2(Lanes) bits from bit log2(Stride)
// on: in all of them, bits 4n … 4n + 3 of the result are those of the lane with number n, where `number` is the value
// of these bits of its lane index.
template <int Lanes, int Stride>
__device__ __forceinline__ unsigned share_bits(unsigned bits, int number) {
  bits <<= 4 * number;
#pragma unroll
  for (int offset = 1; offset < Lanes; offset *= 2) bits |= __shfl_xor_sync(kFullWarp, bits, offset * Stride);
  return bits;
}

}  // namespace heed::cuda
