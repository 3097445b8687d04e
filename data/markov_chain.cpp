#include "data/markov_chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

// Cumulative sums of each row of `width` weights, normalised so that the last one is exactly 1.
std::vector<double> cumulative(std::span<const double> weights, int64_t width) {
  std::vector<double> sums(weights.size());
  for (size_t start = 0; start < weights.size(); start += width) {
    std::partial_sum(weights.begin() + start, weights.begin() + start + width, sums.begin() + start);
    const double total = sums[start + width - 1];
    for (int64_t i = 0; i < width; ++i) sums[start + i] /= total;
  }
  return sums;
}

// Inverse-CDF sampling: the first entry that reaches u, 0 < u <= 1. An entry of probability 0 does not increase the
// cumulative sum, so it is never the first.
int64_t draw(const double* sums, int64_t count, double u) { return std::lower_bound(sums, sums + count, u) - sums; }

double minus_p_log_p(double p) { return p > 0.0 ? -p * std::log(p) : 0.0; }

// A normal variate uses the uniforms 4 i and 4 i + 1 (one Philox counter), the acceptance test uses 4 i + 2. Attempts i
// start at 1, since uniform 0 is used by the boost for shape < 1.
double log_gamma_variate_above_one(const RandomStream& stream, double shape) {
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (uint64_t attempt = 1;; ++attempt) {
    const double z = stream.normal(4 * attempt);
    const double root = 1.0 + c * z;
    if (root <= 0.0) continue;
    const double v = root * root * root, log_v = 3.0 * std::log(root);
    if (std::log(stream.uniform(4 * attempt + 2)) < 0.5 * z * z + d * (1.0 - v + log_v)) return std::log(d) + log_v;
  }
}

// Converts logarithms of gamma variates to a Dirichlet row (a softmax).
void normalize(std::span<double> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (double& value : row) sum += value = std::exp(value - max);
  for (double& value : row) value /= sum;
}

}  // namespace

int64_t bounded_power(int64_t base, int64_t exponent, int64_t limit) {
  if (base == 1) return 1;
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (power > limit / base) return limit + 1;
    power *= base;
  }
  return power;
}

int64_t markov_bytes(int64_t vocab_size, int64_t num_offsets, int64_t memory) {
  return 16 * bounded_power(vocab_size, num_offsets + 1, MarkovChain::kMaxTableEntries) +
         36 * bounded_power(vocab_size, memory, MarkovChain::kMaxStates);
}

MarkovChain::MarkovChain(int64_t vocab_size, std::vector<int64_t> offsets, std::vector<double> rows)
    : vocab_size_(vocab_size), rows_(std::move(rows)) {
  require<DataError>(vocab_size >= 1, "chain: a vocabulary of {} tokens, it must have at least 1", vocab_size);
  for (const int64_t offset : offsets) {
    require<DataError>(1 <= offset && offset <= kMaxMemory, "chain: offset {}, it must be 1 to {}", offset, kMaxMemory);
    memory_ = std::max(memory_, offset);
  }
  num_states_ = bounded_power(vocab_size, memory_, kMaxStates);
  require<DataError>(num_states_ <= kMaxStates, "chain: {}^{} states, at most {} are allowed", vocab_size, memory_,
                     kMaxStates);
  const int64_t entries = bounded_power(vocab_size, static_cast<int64_t>(offsets.size()) + 1, kMaxTableEntries);
  require<DataError>(entries <= kMaxTableEntries && static_cast<int64_t>(rows_.size()) == entries,
                     "chain: {} numbers in the rows, {} tokens and {} offsets need {}^{}, at most {} are allowed",
                     rows_.size(), vocab_size, offsets.size(), vocab_size, offsets.size() + 1, kMaxTableEntries);
  check_rows();
  find_row_of_state(offsets);
  row_cumulative_ = cumulative(rows_, vocab_size_);
  find_prefix_laws();
  state_cumulative_ = cumulative(prefix_laws_[memory_], num_states_);
  find_conditional_entropies();
}

void MarkovChain::check_rows() const {
  constexpr double kRowSumTolerance = 1e-10;
  for (size_t start = 0; start < rows_.size(); start += vocab_size_) {
    double sum = 0.0;
    bool negative = false;
    for (int64_t x = 0; x < vocab_size_; ++x) {
      sum += rows_[start + x];
      negative = negative || rows_[start + x] < 0.0;
    }
    require<DataError>(!negative && std::abs(sum - 1.0) <= kRowSumTolerance,
                       "chain: row {} is no law: its sum is {}{}; it must be 1, of numbers not below 0",
                       start / vocab_size_, sum, negative ? " with negative numbers" : "");
  }
}

void MarkovChain::find_row_of_state(std::span<const int64_t> offsets) {
  row_of_state_.assign(num_states_, 0);
  int64_t place = 1;
  for (const int64_t offset : offsets) {
    const int64_t digit = bounded_power(vocab_size_, offset - 1, kMaxStates);
    for (int64_t state = 0; state < num_states_; ++state) {
      row_of_state_[state] += static_cast<int32_t>(state / digit % vocab_size_ * place);
    }
    place *= vocab_size_;
  }
}

// Power iteration of the lazy chain: law <- (law + law · P) / 2 from the uniform distribution. The lazy chain has the
// same fixed point and also converges if P is (nearly) periodic. The convergence criterion is the residual
// |law · P - law|_1, since it bounds the error of interest: after t tokens the distribution has drifted by at most t
// times the residual.
std::vector<double> MarkovChain::stationary_law() const {
  constexpr double kMaxDefect = 1e-14;
  constexpr int64_t kWork = int64_t{1} << 34, kMaxSweeps = 100'000;  // multiply-adds: at most ten seconds
  std::vector<double> law(num_states_, 1.0 / static_cast<double>(num_states_)), next(num_states_);
  if (memory_ == 0) return law;
  const int64_t max_sweeps = std::min(kMaxSweeps, kWork / (num_states_ * vocab_size_));
  double defect = 0.0;
  for (int64_t sweep = 0; sweep < max_sweeps; ++sweep) {
    std::fill(next.begin(), next.end(), 0.0);
    for (int64_t state = 0; state < num_states_; ++state) {
      const double* p = row(state).data();
      double* target = next.data() + next_state(state, 0);
      for (int64_t x = 0; x < vocab_size_; ++x) target[x] += law[state] * p[x];
    }
    defect = 0.0;
    double sum = 0.0;
    for (int64_t state = 0; state < num_states_; ++state) {
      defect += std::abs(next[state] - law[state]);
      law[state] = 0.5 * (law[state] + next[state]);
      sum += law[state];
    }
    for (double& p : law) p /= sum;
    if (defect <= kMaxDefect) return law;
  }
  throw DataError(
      fmt::format("chain: no stationary law: after {} sweeps a step still moves {:.3g} of the probability, at most "
                  "{:.0e} is allowed; the chain nearly falls apart into pieces: raise the last values of data.alpha",
                  max_sweeps, defect, kMaxDefect));
}

// Marginalises over the newest token, as sample() draws a prefix, so that its conditional probabilities sum to exactly
// 1.
void MarkovChain::find_prefix_laws() {
  prefix_laws_.resize(memory_ + 1);
  prefix_laws_[memory_] = stationary_law();
  for (int64_t k = memory_ - 1; k >= 0; --k) {
    const std::vector<double>& longer = prefix_laws_[k + 1];
    std::vector<double>& law = prefix_laws_[k];
    law.resize(longer.size() / vocab_size_);
    for (size_t prefix = 0; prefix < law.size(); ++prefix) {
      const auto first = longer.begin() + prefix * vocab_size_;
      law[prefix] = std::accumulate(first, first + vocab_size_, 0.0);
    }
  }
}

void MarkovChain::find_conditional_entropies() {
  conditional_entropies_.assign(memory_ + 1, 0.0);
  for (int64_t k = 0; k <= memory_; ++k) {
    const std::vector<double>& law = prefix_laws_[k];
    for (size_t prefix = 0; prefix < law.size(); ++prefix) {
      double entropy = 0.0;
      for (int64_t x = 0; x < vocab_size_; ++x) entropy += minus_p_log_p(probability(k, prefix, x));
      conditional_entropies_[k] += law[prefix] * entropy;
    }
  }
}

double MarkovChain::probability(int64_t num_known, int64_t state, int64_t token) const {
  if (num_known >= memory_) return row(state)[token];
  const double prefix = prefix_laws_[num_known][state];
  return prefix > 0.0 ? prefix_laws_[num_known + 1][state * vocab_size_ + token] / prefix : 0.0;
}

void MarkovChain::sample(const RandomStream& stream, uint64_t first_index, std::span<int32_t> tokens) const {
  const int64_t length = static_cast<int64_t>(tokens.size());
  int64_t state = 0;
  if (memory_ > 0) {
    state = draw(state_cumulative_.data(), num_states_, stream.uniform(first_index));
    int64_t digit = num_states_;
    for (int64_t t = 0; t < std::min(memory_, length); ++t) {
      digit /= vocab_size_;
      tokens[t] = static_cast<int32_t>(state / digit % vocab_size_);
    }
  }
  for (int64_t t = memory_; t < length; ++t) {
    const double* sums = row_cumulative_.data() + row_of_state_[state] * vocab_size_;
    const int64_t token = draw(sums, vocab_size_, stream.uniform(first_index + t));
    tokens[t] = static_cast<int32_t>(token);
    state = next_state(state, token);
  }
}

double log_gamma_variate(const RandomStream& stream, double shape) {
  if (shape >= 1.0) return log_gamma_variate_above_one(stream, shape);
  if (shape == 0.0) return -std::numeric_limits<double>::infinity();
  return log_gamma_variate_above_one(stream, shape + 1.0) + std::log(stream.uniform(0)) / shape;
}

std::vector<double> hierarchical_dirichlet_rows(int64_t vocab_size, std::span<const double> alpha, uint32_t seed) {
  std::vector<double> parents(vocab_size, 1.0 / static_cast<double>(vocab_size));
  int64_t num_rows = 1;
  for (size_t level = 0; level < alpha.size(); ++level) {
    if (level > 0) num_rows *= vocab_size;
    const int64_t num_parents = static_cast<int64_t>(parents.size()) / vocab_size;
    RandomStream stream{
        seed, random_site(RandomDomain::data, static_cast<uint32_t>(level), static_cast<uint32_t>(RandomPlace::rows))};
    std::vector<double> rows(num_rows * vocab_size);
    for (int64_t c = 0; c < num_rows; ++c) {
      const double* parent = parents.data() + (c % num_parents) * vocab_size;
      const std::span<double> row(rows.data() + c * vocab_size, vocab_size);
      for (int64_t x = 0; x < vocab_size; ++x) {
        stream.step = static_cast<uint64_t>(c * vocab_size + x);
        row[x] = log_gamma_variate(stream, alpha[level] * parent[x]);
      }
      normalize(row);
    }
    parents = std::move(rows);
  }
  return parents;
}

}  // namespace heed::data
