// Random numbers of the synthetic datasets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/core/philox.hpp"

namespace heed::data {

// Sites of the random numbers of a synthetic dataset: random_site(RandomDomain::data, layer, place).
enum class RandomPlace : uint32_t {
  rows = 0,             // what the language is; layer = level of the hierarchy or number of the table
  train_sequences = 1,  // layer 0 for this and all places below
  validation_sequences = 2,
  test_sequences = 3,
  train_eval_sequences = 4,
  reference_sequences = 5,  // of the Monte-Carlo means of the reference losses
};

RandomStream synthetic_stream(uint32_t seed, RandomPlace place, uint64_t step, uint32_t layer = 0);

// The random numbers of sequence `row` of a stream, in order; at most 2^32 of them, so that rows share none.
class SequenceRandom {
 public:
  SequenceRandom(const RandomStream& stream, int64_t row) : stream_(stream), next_(static_cast<uint64_t>(row) << 32) {}

  double uniform() { return stream_.uniform(next_++); }  // in (0, 1)
  // Uniform in [0, count): floor(uniform() · count), count at most 2^52.
  int64_t below(int64_t count) { return static_cast<int64_t>(uniform() * static_cast<double>(count)); }

 private:
  RandomStream stream_;
  uint64_t next_;
};

// Cumulative sums of each row of `width` weights, normalised so that the last one is exactly 1.
std::vector<double> cumulative(std::span<const double> weights, int64_t width);

// Inverse-CDF sampling from a row of cumulative(): the first entry that reaches u, 0 < u <= 1. An entry of probability
// 0 does not increase the cumulative sum, so it is never the first.
int64_t draw(const double* sums, int64_t count, double u);

}  // namespace heed::data
