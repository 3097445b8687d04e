#include "data/synthetic/dirichlet.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/synthetic/sampling.hpp"

namespace heed::data {

namespace {

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

double log_gamma_variate(const RandomStream& stream, double shape) {
  if (shape >= 1.0) return log_gamma_variate_above_one(stream, shape);
  if (shape == 0.0) return -std::numeric_limits<double>::infinity();
  return log_gamma_variate_above_one(stream, shape + 1.0) + std::log(stream.uniform(0)) / shape;
}

std::vector<double> dirichlet_rows(std::span<const double> parents, int64_t width, int64_t num_rows, double alpha,
                                   uint32_t seed, uint32_t layer) {
  const int64_t num_parents = static_cast<int64_t>(parents.size()) / width;
  std::vector<double> rows(num_rows * width);
  for (int64_t r = 0; r < num_rows; ++r) {
    const double* parent = parents.data() + (r % num_parents) * width;
    const std::span<double> row(rows.data() + r * width, width);
    for (int64_t x = 0; x < width; ++x) {
      const auto element = static_cast<uint64_t>(r * width + x);
      row[x] = log_gamma_variate(synthetic_stream(seed, RandomPlace::rows, element, layer), alpha * parent[x]);
    }
    normalize(row);
  }
  return rows;
}

std::vector<double> hierarchical_dirichlet_rows(int64_t vocab_size, std::span<const double> alpha, uint32_t seed) {
  std::vector<double> rows(vocab_size, 1.0 / static_cast<double>(vocab_size));
  int64_t num_rows = 1;
  for (size_t level = 0; level < alpha.size(); ++level) {
    if (level > 0) num_rows *= vocab_size;
    rows = dirichlet_rows(rows, vocab_size, num_rows, alpha[level], seed, static_cast<uint32_t>(level));
  }
  return rows;
}

}  // namespace heed::data
