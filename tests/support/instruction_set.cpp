// Kernels are compiled once for each set of instructions and the best one is taken. With HEED_TEST_INSTRUCTIONS=avx2 or
// =scalar, a test executable takes what a processor without the better ones would.
#include <hwy/targets.h>

#include <cstdlib>
#include <string_view>

#include "autograd/core/check.hpp"

namespace heed::test {
namespace {

int64_t allowed_targets(std::string_view name) {
  if (name == "scalar") return HWY_SCALAR | HWY_EMU128;
  if (name == "avx2") return HWY_SCALAR | HWY_EMU128 | HWY_AVX2;
  throw ConfigError(fmt::format("HEED_TEST_INSTRUCTIONS is '{}', it must be avx2 or scalar", name));
}

[[maybe_unused]] const bool kLimited = [] {
  const char* name = std::getenv("HEED_TEST_INSTRUCTIONS");
  if (name != nullptr) hwy::DisableTargets(~allowed_targets(name));
  return name != nullptr;
}();

}  // namespace
}  // namespace heed::test
