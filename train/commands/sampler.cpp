#include "train/commands/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

// Token ids in descending order of their logits; equal logits in ascending order of ids.
std::vector<int32_t> ranked(std::span<const double> logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

}  // namespace

void check(const SamplerOptions& o) {
  require<ConfigError>(std::isfinite(o.temperature) && o.temperature >= 0,
                       "--temperature is {}, it must be finite and at least 0", o.temperature);
  require<ConfigError>(o.top_k >= 0, "--top-k is {}, it must be at least 1, or 0 for all", o.top_k);
  require<ConfigError>(o.top_p > 0 && o.top_p <= 1, "--top-p is {}, it must be above 0 and at most 1", o.top_p);
}

int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index) {
  check(options);
  const bool broken =
      std::any_of(logits.begin(), logits.end(), [](double l) { return std::isnan(l) || l == INFINITY; });
  const std::vector<int32_t> ids = ranked(logits);
  require<DivergedError>(!broken && !ids.empty() && std::isfinite(logits[static_cast<size_t>(ids[0])]),
                         "generate: the model gives logits that are not finite");
  if (options.temperature == 0 || options.top_k == 1) return ids[0];
  size_t count = ids.size();
  if (options.top_k > 0) count = std::min(count, static_cast<size_t>(options.top_k));
  std::vector<double> weights;
  const double largest = logits[static_cast<size_t>(ids[0])];
  // The largest logit is subtracted before the division: at a tiny temperature the others become -Inf, never NaN.
  for (size_t i = 0; i < count; ++i) {
    weights.push_back(std::exp((logits[static_cast<size_t>(ids[i])] - largest) / options.temperature));
  }
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t last = 0;
  do {
    kept += weights[last++];
  } while (last < count && kept < options.top_p * all);
  double rest = random.uniform(index) * kept;
  for (size_t i = 0; i < last; ++i) {
    rest -= weights[i];
    if (rest < 0) return ids[i];
  }
  return ids[0];
}

}  // namespace heed::train
