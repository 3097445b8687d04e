#include "autograd/core/philox.hpp"

#include <cmath>
#include <numbers>

namespace heed {

double RandomStream::normal(uint64_t index) const {
  const uint64_t pair = index / 2;
  const double radius = std::sqrt(-2.0 * std::log(uniform(2 * pair)));
  const double angle = 2.0 * std::numbers::pi * uniform(2 * pair + 1);
  return index % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

}  // namespace heed
