#include "autograd/core/philox.hpp"

#include <cmath>
#include <numbers>

namespace heed {

std::array<double, 2> RandomStream::normal_pair(uint64_t pair) const {
  const double radius = std::sqrt(-2.0 * std::log(uniform(2 * pair)));
  const double angle = 2.0 * std::numbers::pi * uniform(2 * pair + 1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace heed
