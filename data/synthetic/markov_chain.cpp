#include "data/synthetic/markov_chain.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/core/check.hpp"
#include "data/synthetic/sampling.hpp"

namespace heed::data {

namespace {

double minus_p_log_p(double p) { return p > 0.0 ? -p * std::log(p) : 0.0; }

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
                       "chain: row {} is not a distribution: its sum is {}{}; it must be 1, of numbers not below 0",
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

}  // namespace heed::data
