// Which tokens sample() can give, and how often, for probabilities that are powers of two: every sum is exact.
#include "train/commands/generate.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

// By id 1/8, 1/2, 1/8, 1/4: not in falling order.
const std::vector<double> kLogits{std::log(0.125), std::log(0.5), std::log(0.125), std::log(0.25)};
constexpr int kDraws = 4000;

// How often each id is drawn.
std::array<int, 4> draw(const SamplerOptions& options) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  std::array<int, 4> counts{};
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(static_cast<size_t>(sample(kLogits, options, random, i)));
  return counts;
}

// Five standard deviations of a binomial count.
void expect_shares(const std::array<int, 4>& counts, const std::array<double, 4>& shares) {
  for (size_t id = 0; id < shares.size(); ++id) {
    const double mean = kDraws * shares.at(id), deviation = std::sqrt(mean * (1 - shares.at(id)));
    EXPECT_NEAR(counts.at(id), mean, 5 * deviation) << "token " << id;
  }
}

TEST(Sampler, DrawsByTheProbabilities) {
  expect_shares(draw({}), {0.125, 0.5, 0.125, 0.25});
  expect_shares(draw({.top_k = 4}), {0.125, 0.5, 0.125, 0.25});
  expect_shares(draw({.top_k = 100}), {0.125, 0.5, 0.125, 0.25});
}

TEST(Sampler, TemperatureIsAPowerOfTheProbabilities) {
  expect_shares(draw({.temperature = 0.5}), {1.0 / 22, 16.0 / 22, 1.0 / 22, 4.0 / 22});
}

TEST(Sampler, TopKKeepsThatMany) {
  expect_shares(draw({.top_k = 2}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.top_k = 1}), {0, 1, 0, 0});
  // Of the two that are equal the lower id.
  expect_shares(draw({.top_k = 3}), {1.0 / 7, 4.0 / 7, 0, 2.0 / 7});
}

// The token whose probability crosses the sum is kept; where the sum reaches p exactly, the next one is not.
TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  expect_shares(draw({.top_p = 0.6}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.top_p = 0.75}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_shares(draw({.top_p = 0.5}), {0, 1, 0, 0});
  expect_shares(draw({.top_p = 0.01}), {0, 1, 0, 0});
  expect_shares(draw({.top_p = 0.8}), {1.0 / 7, 4.0 / 7, 0, 2.0 / 7});
  expect_shares(draw({.top_p = 1}), {0.125, 0.5, 0.125, 0.25});
}

TEST(Sampler, TopPIsOfWhatTopKLeaves) { expect_shares(draw({.top_k = 2, .top_p = 2.0 / 3 - 1e-9}), {0, 1, 0, 0}); }

TEST(Sampler, TemperatureZeroIsTheLargestLogitWithTheLowestId) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  EXPECT_EQ(sample(kLogits, {.temperature = 0}, random, 0), 1);
  EXPECT_EQ(sample(std::vector<double>{-1, 2, 2}, {.temperature = 0}, random, 0), 1);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::sampling)};
  for (const double bad : {double{NAN}, double{INFINITY}}) {
    EXPECT_THROW(sample(std::vector<double>{0, bad, 1}, {}, random, 0), DivergedError);
  }
  EXPECT_THROW(sample(std::vector<double>{-INFINITY, -INFINITY}, {}, random, 0), DivergedError);
  EXPECT_EQ(sample(std::vector<double>{-INFINITY, 0}, {}, random, 0), 1);
}

}  // namespace
}  // namespace heed::train
