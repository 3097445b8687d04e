#include "data/synthetic/sampling.hpp"

#include <algorithm>
#include <numeric>

namespace heed::data {

RandomStream synthetic_stream(uint32_t seed, RandomPlace place, uint64_t step, uint32_t layer) {
  return {seed, random_site(RandomDomain::data, layer, static_cast<uint32_t>(place)), step};
}

std::vector<double> cumulative(std::span<const double> weights, int64_t width) {
  std::vector<double> sums(weights.size());
  for (size_t start = 0; start < weights.size(); start += width) {
    std::partial_sum(weights.begin() + start, weights.begin() + start + width, sums.begin() + start);
    const double total = sums[start + width - 1];
    for (int64_t i = 0; i < width; ++i) sums[start + i] /= total;
  }
  return sums;
}

int64_t draw(const double* sums, int64_t count, double u) { return std::lower_bound(sums, sums + count, u) - sums; }

}  // namespace heed::data
