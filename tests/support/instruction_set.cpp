// Kernels are compiled once for each set of instructions and the best one is taken. With HEED_TEST_INSTRUCTIONS=avx2 or
// =scalar, a test executable takes what a processor without the better ones would. Not limited are oneDNN and what asks
// for bf16 products.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "autograd/core/check.hpp"
#include "autograd/cpu/build_info.hpp"

namespace heed::test {
namespace {

constexpr int64_t kScalar = HWY_SCALAR | HWY_EMU128;

std::string_view asked_for() {
  const char* name = std::getenv("HEED_TEST_INSTRUCTIONS");
  return name == nullptr ? "" : name;
}

[[maybe_unused]] const bool kLimited = [] {
  const std::string_view name = asked_for();
  if (name.empty()) return false;
  require<ConfigError>(name == "avx2" || name == "scalar", "HEED_TEST_INSTRUCTIONS is '{}', it must be avx2 or scalar",
                       name);
  hwy::DisableTargets(~(name == "avx2" ? kScalar | HWY_AVX2 : kScalar));
  return true;
}();

TEST(InstructionSet, IsTheOneAskedFor) {
  const std::string set = cpu::instruction_set();
  if (asked_for() == "scalar") {
    EXPECT_TRUE(set == "SCALAR" || set == "EMU128") << set;
  }
  if (asked_for() != "avx2") return;
  if ((hwy::SupportedTargets() & HWY_AVX2) == 0) GTEST_SKIP() << "the processor has no AVX2";
  EXPECT_EQ(set, "AVX2");
}

}  // namespace
}  // namespace heed::test
