#include "autograd/core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

std::vector<uint32_t> words_of(const PhiloxWords& words) { return {words.word, words.word + 4}; }

// The vectors of the Random123 distribution (kat_vectors, philox4x32 10), computed again from the paper's formula.
TEST(Philox, KnownAnswers) {
  using Words = std::vector<uint32_t>;
  EXPECT_EQ(words_of(philox4x32(0, 0, 0, 0)), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint64_t kAll = ~uint64_t{0};
  EXPECT_EQ(words_of(philox4x32(kAll, kAll, 0xffffffff, 0xffffffff)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Digits of pi: the low word of a counter's half comes first.
  EXPECT_EQ(words_of(philox4x32(0x85a308d3'243f6a88, 0x03707344'13198a2e, 0xa4093822, 0x299f31d0)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AWordIsALaneOfItsBlock) {
  const RandomStream stream{.seed = 3, .site = 5, .step = 7};
  for (const uint64_t index :
       {uint64_t{0}, uint64_t{1}, uint64_t{6}, uint64_t{4'294'967'299}, (uint64_t{1} << 40) + 2}) {
    EXPECT_EQ(stream.word(index), stream.words(index / 4).word[index % 4]) << index;
  }
  EXPECT_EQ(words_of(stream.words(9)), words_of(philox4x32(9, 7, 3, 5)));
}

// The halves computed apart from this code, from the words of counter 9.
TEST(Philox, HalvesOfWordsAreLittleEndian) {
  const RandomStream stream{.seed = 3, .site = 5, .step = 7};
  EXPECT_EQ(words_of(stream.words(9)), (std::vector<uint32_t>{0x970b5434, 0x56ea12ee, 0x322c397e, 0xf1113ee7}));
  std::vector<uint32_t> halves;
  for (uint64_t index = 72; index < 80; ++index) halves.push_back(stream.half(index));
  EXPECT_EQ(halves, (std::vector<uint32_t>{0x5434, 0x970b, 0x12ee, 0x56ea, 0x397e, 0x322c, 0x3ee7, 0xf111}));
}

TEST(Philox, EveryCoordinateCounts) {
  const RandomStream base{.seed = 1, .site = random_site(RandomDomain::dropout, 2, 3), .step = 4};
  std::set<uint32_t> words{base.word(0)};
  const auto differs = [&](RandomStream stream, uint64_t index = 0) { return words.insert(stream.word(index)).second; };
  EXPECT_TRUE(differs({2, base.site, base.step}));
  EXPECT_TRUE(differs({base.seed, base.site, 5}));
  EXPECT_TRUE(differs({base.seed, base.site, base.step.get() + (uint64_t{1} << 32)}));
  EXPECT_TRUE(differs({base.seed, random_site(RandomDomain::data, 2, 3), base.step}));
  EXPECT_TRUE(differs({base.seed, random_site(RandomDomain::dropout, 3, 3), base.step}));
  EXPECT_TRUE(differs({base.seed, random_site(RandomDomain::dropout, 2, 4), base.step}));
  for (const uint64_t index : {uint64_t{1}, uint64_t{4}, uint64_t{1} << 34, uint64_t{1} << 40}) {
    EXPECT_TRUE(differs(base, index)) << index;
  }
}

TEST(Philox, SitesAreDistinct) {
  std::set<uint32_t> sites;
  int count = 0;
  for (const RandomDomain domain :
       {RandomDomain::init, RandomDomain::dropout, RandomDomain::data, RandomDomain::sampling, RandomDomain::test}) {
    for (const uint32_t layer : {0u, 1u, 255u, 256u, 0xFFFFFu}) {
      for (const uint32_t place : {0u, 1u, 0xFFu}) {
        sites.insert(random_site(domain, layer, place));
        ++count;
      }
    }
  }
  EXPECT_EQ(sites.size(), static_cast<size_t>(count));
}

// Mean of f over draws lies within kSigmas standard errors of what the law says.
template <class F>
void expect_mean(const std::vector<double>& draws, F f, double mean, double variance, const char* what) {
  double sum = 0;
  for (const double x : draws) sum += f(x);
  const auto n = static_cast<double>(draws.size());
  EXPECT_LE(std::abs(sum / n - mean), kSigmas * std::sqrt(variance / n)) << what << " is " << sum / n;
}

template <class Draw>
std::vector<double> draw_many(Draw draw) {
  std::vector<double> draws;
  for (uint64_t i = 0; i < 200'000; ++i) draws.push_back(draw(i));
  return draws;
}

double lag(const std::vector<double>& x, size_t distance, double mean) {
  double sum = 0;
  for (size_t i = distance; i < x.size(); ++i) sum += (x[i] - mean) * (x[i - distance] - mean);
  return sum / static_cast<double>(x.size() - distance);
}

TEST(Philox, UniformHasTheMomentsOfItsLaw) {
  const RandomStream stream{.seed = 9, .site = random_site(RandomDomain::test), .step = 1};
  const std::vector<double> draws = draw_many([&](uint64_t i) { return stream.uniform(i); });
  expect_mean(
      draws, [](double u) { return u; }, 1.0 / 2, 1.0 / 12, "mean");
  expect_mean(
      draws, [](double u) { return u * u; }, 1.0 / 3, 4.0 / 45, "mean square");
  expect_mean(
      draws, [](double u) { return u * u * u; }, 1.0 / 4, 1.0 / 7 - 1.0 / 16, "mean cube");
  expect_mean(
      draws, [](double u) { return u < 0.1 ? 1 : 0; }, 0.1, 0.09, "share below 0.1");
  // Digits far behind the point are uniform too.
  expect_mean(
      draws, [](double u) { return std::fmod(u * 0x1p32, 1.0); }, 1.0 / 2, 1.0 / 12, "mean of the low bits");
  const double sigma = 1.0 / 12 / std::sqrt(static_cast<double>(draws.size()));
  for (const size_t distance : {1, 2, 3, 4})
    EXPECT_LE(std::abs(lag(draws, distance, 0.5)), kSigmas * sigma) << distance;
}

TEST(Philox, UniformStaysBetweenZeroAndOne) {
  // The block at this counter is all ones, found by running the ten rounds backwards.
  const RandomStream ones{.seed = 3, .site = random_site(RandomDomain::test), .step = 0x9a7c5d377dd1f116};
  constexpr uint64_t kBlock = 0x15ac584849c8a65e;
  ASSERT_EQ(words_of(ones.words(kBlock)), std::vector<uint32_t>(4, 0xffffffff));
  EXPECT_LT(ones.uniform(2 * kBlock), 1.0);
  EXPECT_TRUE(std::isfinite(ones.normal(2 * kBlock)));
  // And this one all zeros.
  const RandomStream zeros{.seed = 12, .site = random_site(RandomDomain::test), .step = 0x5059c15b67cd20da};
  constexpr uint64_t kZeroBlock = 0x2f6b657c4e3d8800;
  ASSERT_EQ(words_of(zeros.words(kZeroBlock)), std::vector<uint32_t>(4, 0));
  EXPECT_GT(zeros.uniform(2 * kZeroBlock), 0.0);
  EXPECT_TRUE(std::isfinite(zeros.normal(2 * kZeroBlock)));
}

TEST(Philox, NormalHasTheMomentsOfItsLaw) {
  const RandomStream stream{.seed = 9, .site = random_site(RandomDomain::test), .step = 2};
  const std::vector<double> draws = draw_many([&](uint64_t i) { return stream.normal(i); });
  expect_mean(
      draws, [](double z) { return z; }, 0, 1, "mean");
  expect_mean(
      draws, [](double z) { return z * z; }, 1, 2, "variance");
  expect_mean(
      draws, [](double z) { return z * z * z; }, 0, 15, "third moment");
  expect_mean(
      draws, [](double z) { return z * z * z * z; }, 3, 96, "fourth moment");
  expect_mean(
      draws, [](double z) { return std::abs(z) > 1 ? 1 : 0; }, 0.3173105, 0.2166246, "share beyond one sigma");
  const double sigma = 1 / std::sqrt(static_cast<double>(draws.size()));
  for (const size_t distance : {1, 2, 3}) EXPECT_LE(std::abs(lag(draws, distance, 0)), kSigmas * sigma) << distance;
}

TEST(Philox, NormalsArePairsOfUniformsInPolarForm) {
  const RandomStream stream{.seed = 9, .site = random_site(RandomDomain::test), .step = 3};
  for (uint64_t i = 0; i < 100; i += 2) {
    const double x = stream.normal(i), y = stream.normal(i + 1);
    const double square = -2 * std::log(stream.uniform(i));
    EXPECT_NEAR(x * x + y * y, square, kF64 * square);
    const double turn = std::atan2(y, x) / (2 * std::numbers::pi);
    EXPECT_NEAR(turn < 0 ? turn + 1 : turn, stream.uniform(i + 1), kF64);
  }
}

TEST(Philox, EveryBitIsFair) {
  const RandomStream stream{.seed = 4, .site = random_site(RandomDomain::test), .step = 0};
  constexpr uint64_t kDraws = 20'000;
  std::vector<int> ones(32, 0);
  for (uint64_t i = 0; i < kDraws; ++i) {
    for (size_t bit = 0; bit < 32; ++bit) ones[bit] += static_cast<int>(stream.word(i) >> bit & 1);
  }
  for (size_t bit = 0; bit < 32; ++bit) {
    EXPECT_LE(std::abs(ones[bit] / static_cast<double>(kDraws) - 0.5), kSigmas * 0.5 / std::sqrt(kDraws)) << bit;
  }
}

}  // namespace
}  // namespace heed::test
