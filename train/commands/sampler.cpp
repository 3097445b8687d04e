#include "train/commands/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

// Token ids in descending order of their logits; equal logits in ascending order of ids. Sorts only as many as are
// asked for: of a large vocabulary, sampling seldom looks at more than the first few.
class RankedIds {
 public:
  explicit RankedIds(std::span<const double> logits) : logits_(logits), ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  int32_t operator[](size_t rank) {
    if (rank >= sorted_) sort_until(std::min(ids_.size(), std::max(rank + 1, 4 * sorted_)));
    return ids_[rank];
  }

 private:
  void sort_until(size_t end) {
    const auto at = [&](size_t rank) { return ids_.begin() + static_cast<std::ptrdiff_t>(rank); };
    std::partial_sort(at(sorted_), at(end), ids_.end(),
                      [&](int32_t a, int32_t b) { return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b; });
    sorted_ = end;
  }

  std::span<const double> logits_;
  std::vector<int32_t> ids_;
  size_t sorted_ = 0;
};

}  // namespace

void check(const SamplerOptions& o) {
  require<ConfigError>(std::isfinite(o.repetition_penalty) && o.repetition_penalty > 0,
                       "--repetition-penalty is {}, it must be finite and above 0; 1: none", o.repetition_penalty);
  require<ConfigError>(std::isfinite(o.frequency_penalty), "--frequency-penalty is {}, it must be finite",
                       o.frequency_penalty);
  require<ConfigError>(std::isfinite(o.presence_penalty), "--presence-penalty is {}, it must be finite",
                       o.presence_penalty);
  require<ConfigError>(std::isfinite(o.temperature) && o.temperature >= 0,
                       "--temperature is {}, it must be finite and at least 0", o.temperature);
  require<ConfigError>(o.top_k >= 0, "--top-k is {}, it must be at least 1, or 0 for all", o.top_k);
  require<ConfigError>(o.top_p > 0 && o.top_p <= 1, "--top-p is {}, it must be above 0 and at most 1", o.top_p);
  require<ConfigError>(o.min_p >= 0 && o.min_p <= 1, "--min-p is {}, it must be at least 0 and at most 1", o.min_p);
}

void penalize(std::span<double> logits, const SamplerOptions& options, std::span<const int32_t> tokens,
              int64_t num_generated) {
  if (options.repetition_penalty != 1) {
    for (const int32_t id : std::set<int32_t>(tokens.begin(), tokens.end())) {
      logits[id] = logits[id] < 0 ? logits[id] * options.repetition_penalty : logits[id] / options.repetition_penalty;
    }
  }
  if (options.frequency_penalty == 0 && options.presence_penalty == 0) return;
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : tokens.last(static_cast<size_t>(num_generated))) ++counts[id];
  for (const auto& [id, count] : counts) {
    logits[id] -= static_cast<double>(count) * options.frequency_penalty + options.presence_penalty;
  }
}

int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index) {
  check(options);
  const bool broken =
      std::any_of(logits.begin(), logits.end(), [](double l) { return std::isnan(l) || l == INFINITY; });
  const auto likeliest = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  require<DivergedError>(!broken && !logits.empty() && std::isfinite(logits[likeliest]),
                         "generate: the model gives logits that are not finite");
  if (options.temperature == 0 || options.top_k == 1) return likeliest;
  // The largest logit is subtracted before the division: at a tiny temperature the others become -Inf, never NaN.
  const auto weight = [&](int32_t id) { return std::exp((logits[id] - logits[likeliest]) / options.temperature); };
  RankedIds ids(logits);
  const size_t count = options.top_k == 0 ? logits.size() : std::min(logits.size(), static_cast<size_t>(options.top_k));
  double all = 0;
  for (size_t i = 0; i < count; ++i) all += weight(count == logits.size() ? static_cast<int32_t>(i) : ids[i]);
  double kept = all;
  size_t last = count;
  if (options.top_p < 1 || options.min_p > 0) {
    kept = 0;
    last = 0;
    do {
      kept += weight(ids[last++]);
    } while (last < count && kept < options.top_p * all && weight(ids[last]) >= options.min_p);
  }
  double rest = random.uniform(index) * kept;
  for (size_t i = 0; i < last; ++i) {
    rest -= weight(ids[i]);
    if (rest < 0) return ids[i];
  }
  return likeliest;
}

}  // namespace heed::train
