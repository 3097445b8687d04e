#include "autograd/check/gradcheck.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/core/philox.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

// L and the sum of the magnitudes of its terms, which bounds its rounding error.
struct Contraction {
  double value = 0, size = 0;
};

Contraction contract(const Tensor& y, const Tensor& weights) {
  Contraction c;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double term = y.data<double>()[i] * weights.data<double>()[i];
    c.value += term;
    c.size += std::abs(term);
  }
  return c;
}

Tensor random_weights(const Tensor& y, uint32_t seed) {
  const RandomStream stream{.seed = seed, .site = random_site(RandomDomain::test), .step = 0};
  Tensor weights = empty(y.shape(), DType::f64);
  for (int64_t i = 0; i < y.numel(); ++i) weights.data<double>()[i] = stream.normal(static_cast<uint64_t>(i));
  return weights;
}

struct Difference {
  double numeric = 0;
  double rounding = 0;  // bound on the rounding error of L in `numeric`
};

Difference differentiate(const std::function<Tensor()>& fn, const Tensor& weights, double& element, double h) {
  const NoGradGuard no_grad;
  const double x = element;
  double size = 0;
  const auto at = [&](double offset) {
    element = x + offset;
    const Contraction c = contract(fn(), weights);
    size = std::max(size, c.size);
    return c.value;
  };
  const double slope = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
  element = x;
  constexpr double kRoundingsPerTerm = 16;
  return {slope, kRoundingsPerTerm * std::numeric_limits<double>::epsilon() * size / h};
}

std::vector<int64_t> chosen_elements(int64_t count, int64_t most, uint32_t seed, size_t tensor) {
  std::vector<int64_t> elements;
  if (count <= most) {
    for (int64_t i = 0; i < count; ++i) elements.push_back(i);
    return elements;
  }
  const RandomStream stream{
      .seed = seed, .site = random_site(RandomDomain::test, static_cast<uint32_t>(tensor), 1), .step = 0};
  for (int64_t i = 0; i < most; ++i) {
    elements.push_back(static_cast<int64_t>(stream.uniform(static_cast<uint64_t>(i)) * static_cast<double>(count)));
  }
  return elements;
}

std::vector<double> analytic_gradient(const Tensor& tensor) {
  if (!tensor.grad()) return std::vector<double>(static_cast<size_t>(tensor.numel()), 0.0);
  return tensor.grad().values();
}

void compare(GradcheckResult& result, const GradcheckTensor& item, int64_t element, double analytic,
             const Difference& difference, double largest, double tolerance) {
  const double distance = std::abs(analytic - difference.numeric);
  // The last term: an error that rounding of L alone can explain counts as at most the tolerance.
  const double scale =
      std::max({std::abs(analytic), std::abs(difference.numeric), 1e-4 * largest, difference.rounding / tolerance});
  // Equal values have error 0, also for 0 / 0. Any NaN counts as an infinite error.
  double error = distance == 0 ? 0.0 : distance / scale;
  if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
  ++result.checked;
  if (!(error <= tolerance)) result.passed = false;
  if (result.tensor.empty() || error > result.error) {
    result.error = error;
    result.tensor = item.name;
    result.element = element;
    result.analytic = analytic;
    result.numeric = difference.numeric;
  }
}

}  // namespace

std::string GradcheckResult::text() const {
  return fmt::format("{}[{}]: analytic {:.9g} numeric {:.9g} error {:.2g}", tensor, element, analytic, numeric, error);
}

GradcheckResult gradcheck(const std::function<Tensor()>& fn, const std::vector<GradcheckTensor>& tensors,
                          const GradcheckOptions& options) {
  for (const GradcheckTensor& item : tensors) {
    require<DTypeError>(item.tensor.dtype() == DType::f64,
                        "gradcheck: {} is {}; the difference quotient needs f64, in f32 it is mostly rounding",
                        item.name, item.tensor.dtype());
    item.tensor.set_requires_grad(true);
    item.tensor.set_grad(Tensor());
  }
  const Tensor y = fn();
  const Tensor weights = random_weights(y, options.seed);
  if (y.requires_grad()) backward(y, weights);

  GradcheckResult result;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const GradcheckTensor& item = tensors[t];
    const std::vector<double> analytic = analytic_gradient(item.tensor);
    double largest = 0;
    for (const double g : analytic) largest = std::max(largest, std::abs(g));
    for (const int64_t element : chosen_elements(item.tensor.numel(), options.max_elements, options.seed, t)) {
      const Difference difference = differentiate(fn, weights, item.tensor.data<double>()[element], options.step);
      compare(result, item, element, analytic[static_cast<size_t>(element)], difference, largest, options.tolerance);
    }
    item.tensor.set_grad(Tensor());
  }
  return result;
}

}  // namespace heed
