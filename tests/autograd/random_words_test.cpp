#include "autograd/cpu/random_words.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace heed::test {
namespace {

constexpr uint32_t kGuard = 0xABCD1234u;

void expect_the_bits_of_philox(const RandomStream& random, uint64_t first_counter, int64_t counters) {
  std::vector<uint32_t> words(static_cast<size_t>(4 * counters) + 1, kGuard);
  cpu::random_words(random, first_counter, counters, words.data());
  for (size_t i = 0; i < words.size() - 1; ++i) {
    const PhiloxWords expected = random.words(first_counter + i / 4);
    ASSERT_EQ(words[i], expected.word[i % 4]) << "counter " << first_counter << " + " << i / 4 << " word " << i % 4;
  }
  EXPECT_EQ(words.back(), kGuard) << "wrote behind the end";
}

TEST(RandomWords, AreTheBitsOfPhiloxForAnyCount) {
  const RandomStream random{.seed = 42, .site = random_site(RandomDomain::dropout, 3, 1), .step = 9};
  for (int64_t counters = 0; counters <= 70; ++counters) expect_the_bits_of_philox(random, 5, counters);
  expect_the_bits_of_philox(random, 0, 5000);
}

TEST(RandomWords, UseAllBitsOfCounterStepSeedAndSite) {
  const uint64_t edges[] = {0, 0xFFFFFFFFu - 3, 0x123456789ABCDEFu, ~uint64_t{0} - 40};
  for (const uint64_t counter : edges) {
    for (const uint64_t step : {uint64_t{0}, uint64_t{0xFEDCBA9876543210}, ~uint64_t{0}}) {
      for (const uint32_t seed : {0u, 0x80000001u, 0xFFFFFFFFu}) {
        expect_the_bits_of_philox({.seed = seed, .site = ~seed ^ 0x55u, .step = step}, counter, 33);
      }
    }
  }
}

}  // namespace
}  // namespace heed::test
