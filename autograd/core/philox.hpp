// Philox4x32-10, the only random number generator of heed: counter-based (stateless), with the same bits on every
// backend.
//
// A 32-bit random word is a pure function of (seed, site, step, index). `step` is the training step. A site says
// where the numbers are used (domain, layer, place), never in which order; an index is an element of the *global*
// batch. Dropout masks and sampled sequences therefore depend neither on the order of calls nor on micro-batches or
// ranks.
//   key = (seed, site)    counter = (index / 4 low, high, step low, high)    word = output[index mod 4]
// Dropout needs no more than 16 bits for an element and takes the 16-bit halves of the words, 8 to a counter: half
// `index` of a stream is half index mod 8 of counter index / 8, and half h of a counter is the low 16 bits of word h /
// 2 if h is even, the high 16 bits if h is odd. Words in little-endian memory, read as uint16_t, are the halves in
// order.
//
// Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3" (SC11).
#pragma once

#include <array>
#include <cstdint>

#include "autograd/core/device_scalar.hpp"

namespace heed {

// The four random words of one counter. A struct, because std::array is not usable in all device code.
struct PhiloxWords {
  uint32_t word[4];

  // Half h of 8, at most 2^16 - 1.
  HEED_HOST_DEVICE uint32_t half(int h) const { return word[h / 2] >> (h % 2 * 16) & 0xFFFFu; }
};

HEED_HOST_DEVICE inline PhiloxWords philox4x32(uint64_t counter, uint64_t step, uint32_t seed, uint32_t site) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
  uint32_t k0 = seed, k1 = site;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * c0;
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

enum class RandomDomain : uint32_t { init = 1, dropout = 2, data = 3, sampling = 4, test = 15 };

// A site, i.e. where random numbers are used: 4 bits of domain, 20 of layer, 8 of place.
constexpr uint32_t random_site(RandomDomain domain, uint32_t layer = 0, uint32_t place = 0) {
  return (static_cast<uint32_t>(domain) << 28) | ((layer & 0xFFFFFu) << 8) | (place & 0xFFu);
}

// The random numbers of one site in one training step. Other users set `step` to their own counter.
struct RandomStream {
  uint32_t seed = 0;
  uint32_t site = 0;
  DeviceScalar<uint64_t> step = {};

  HEED_HOST_DEVICE PhiloxWords words(uint64_t counter) const { return philox4x32(counter, step.get(), seed, site); }
  HEED_HOST_DEVICE uint32_t word(uint64_t index) const { return words(index / 4).word[index % 4]; }
  HEED_HOST_DEVICE uint32_t half(uint64_t index) const { return words(index / 8).half(static_cast<int>(index % 8)); }

  // Uniform in (0, 1), from 52 bits of two words (with 53 the largest would round to 1). Number i uses words 2i and 2i
  // + 1.
  double uniform(uint64_t index) const {
    const PhiloxWords w = words(index / 2);
    const uint64_t high = w.word[2 * (index % 2)], low = w.word[2 * (index % 2) + 1];
    return (static_cast<double>((high << 20) ^ (low >> 12)) + 0.5) * 0x1p-52;
  }
  // Two independent standard normals (Box and Muller 1958) from the uniforms 2 * pair and 2 * pair + 1: do not draw
  // both uniforms and normals from one stream.
  std::array<double, 2> normal_pair(uint64_t pair) const;
  double normal(uint64_t index) const { return normal_pair(index / 2)[index % 2]; }
};

}  // namespace heed
