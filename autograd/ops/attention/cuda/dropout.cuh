// Dropout of the attention probabilities: one Philox counter holds the random bits of eight adjacent keys and is
// computed once.
#pragma once

#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/attention/cuda/problem.cuh"

namespace heed::cuda {

// The dropout mask of one head of one sequence.
class KeptWeights {
 public:
  __device__ KeptWeights(const AttentionShape& s, int batch, int head)
      : random_(s.random), threshold_(s.threshold), counters_((static_cast<uint64_t>(s.keys) + 7) / 8) {
    first_ =
        ((s.first_row + static_cast<uint64_t>(batch)) * static_cast<uint64_t>(s.heads) + static_cast<uint64_t>(head)) *
        static_cast<uint64_t>(s.queries) * counters_;
    random_.step = random_.step.get();  // read once
  }

  // Bit i is set if P(query, key / 8 * 8 + i) is kept. Neither the query nor the keys have to exist.
  __device__ unsigned eight(int query, int key) const {
    const PhiloxWords words =
        random_.words(first_ + static_cast<uint64_t>(query) * counters_ + static_cast<uint64_t>(key / 8));
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) bits |= static_cast<unsigned>(words.half(i) >= threshold_) << i;
    return bits;
  }

 private:
  RandomStream random_;
  uint32_t threshold_;
  uint64_t counters_, first_;  // counters per query, and the counter of query 0, key 0
};

// Exchanges the eight bits of each of Lanes lanes, whose lane indices differ in log2(Lanes) bits from bit log2(Stride)
// on; `number` is the value of these bits. The eight bits are Lanes parts of equal size: part n of the result in the
// lane with number m is part m of the lane with number n, so this transposes a matrix of Lanes x Lanes parts.
template <int Lanes, int Stride>
__device__ __forceinline__ unsigned transpose_bits(unsigned bits, int number) {
#pragma unroll
  for (int offset = 1; offset < Lanes; offset *= 2) {
    const int shift = offset * (8 / Lanes);
    const unsigned low = 0xFFu / ((1u << shift) + 1);  // the parts whose number lacks the bit `offset`
    const unsigned other = __shfl_xor_sync(kFullWarp, bits, offset * Stride);
    bits = (number & offset) != 0 ? (bits & ~low) | (other >> shift & low) : (bits & low) | (other & low) << shift;
  }
  return bits;
}

}  // namespace heed::cuda
