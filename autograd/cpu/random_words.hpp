// SIMD Philox4x32-10: bit-identical to core/philox.hpp and about seven times as fast. RandomVectors is for kernels that
// draw a few random words at a time, random_words() for all other code; at_least() compares the 16-bit halves of words
// in memory. Included once per instruction set, like simd.hpp.
//
// Each 64-bit lane holds one of the four 32-bit parts of one counter. The 32 x 32 -> 64 bit multiplication reads only
// the lower half of a lane, so the bits that xor and shift leave in the upper half are harmless.
#if defined(HEED_AUTOGRAD_CPU_RANDOM_WORDS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_RANDOM_WORDS_HPP
#undef HEED_AUTOGRAD_CPU_RANDOM_WORDS_HPP
#else
#define HEED_AUTOGRAD_CPU_RANDOM_WORDS_HPP
#endif

#include <bit>

#include "autograd/core/philox.hpp"
#include "autograd/cpu/simd.hpp"

namespace heed::cpu {

// words[4 i + j] = word j of counter first_counter + i (the word of index 4 (first_counter + i) + j), for
// 0 <= i < counters and 0 <= j < 4.
void random_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words);

}  // namespace heed::cpu

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

class RandomVectors {
 public:
  explicit RandomVectors(const RandomStream& random) : random_(random) {}
  void fill(uint64_t first_counter, int64_t counters, uint32_t* words) const {
    for (int64_t i = 0; i < counters; ++i) {
      const PhiloxWords four = random_.words(first_counter + static_cast<uint64_t>(i));
      std::memcpy(words + 4 * i, four.word, sizeof(four.word));
    }
  }

 private:
  RandomStream random_;
};

#else

class RandomVectors {
 public:
  explicit RandomVectors(const RandomStream& random) : step_(random.step.get()) {
    constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
    for (uint32_t round = 0; round < kRounds; ++round) {
      key0_[round] = random.seed + round * kWeyl0;
      key1_[round] = random.site + round * kWeyl1;
    }
  }

  // As random_words().
  HWY_INLINE void fill(uint64_t first_counter, int64_t counters, uint32_t* words) const {
    const D64 d;
    const D32 d32;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const V64 step_low = hn::Set(d, step_), step_high = hn::Set(d, step_ >> 32);
    // Even lanes hold the first half of the counters and odd lanes the second half. The interleaving below works on 128
    // bits, one counter at a time, and therefore stores the words of each half in order.
    const V64 half = hn::ShiftRight<1>(hn::Iota(d, 0));
    const V64 order = hn::OddEven(hn::Add(half, hn::Set(d, static_cast<uint64_t>(lanes / 2))), half);
    HWY_ALIGN uint32_t last[4 * hn::MaxLanes(d)];
    for (int64_t i = 0; i < counters; i += lanes) {
      const V64 counter = hn::Add(order, hn::Set(d, first_counter + static_cast<uint64_t>(i)));
      const Counters c = rounds({counter, hn::ShiftRight<32>(counter), step_low, step_high});
      const V64 first_pair = pair(c.c0, c.c1), second_pair = pair(c.c2, c.c3);
      uint32_t* out = i + lanes <= counters ? words + 4 * i : last;
      hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d, first_pair, second_pair)), d32, out);
      hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d, first_pair, second_pair)), d32, out + 2 * lanes);
      if (out == last) std::memcpy(words + 4 * i, last, static_cast<size_t>(counters - i) * 4 * sizeof(uint32_t));
    }
  }

 private:
  using D64 = hn::ScalableTag<uint64_t>;
  using D32 = hn::Repartition<uint32_t, D64>;
  using V64 = Vec<D64>;
  static constexpr int kRounds = 10;

  struct Counters {
    V64 c0, c1, c2, c3;
  };

  static HWY_INLINE V64 multiply(V64 a, uint32_t b) {
    const D32 d32;
    return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b));
  }

  static HWY_INLINE V64 mix(V64 product, V64 counter, uint32_t key) {
    return hn::Xor3(hn::ShiftRight<32>(product), counter, hn::BitCast(D64(), hn::Set(D32(), key)));
  }

  HWY_INLINE Counters rounds(Counters c) const {
    constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
    for (int round = 0; round < kRounds; ++round) {
      const V64 product0 = multiply(c.c0, kMultiplier0), product1 = multiply(c.c2, kMultiplier1);
      c = {mix(product1, c.c1, key0_[round]), product1, mix(product0, c.c3, key1_[round]), product0};
    }
    return c;
  }

  // Per 64-bit lane: the lower half of a in the low 32 bits, the lower half of b in the high 32 bits.
  static HWY_INLINE V64 pair(V64 a, V64 b) {
    const D32 d32;
    return hn::BitCast(D64(), hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(b)), hn::BitCast(d32, a)));
  }

  uint64_t step_;
  uint32_t key0_[kRounds], key1_[kRounds];  // round keys
};

#endif

// Which 16-bit halves of random words, one per lane, are at least `threshold`, a number from 1 to 2^16.
template <class D>
HWY_INLINE hn::Mask<D> at_least(D d, const uint16_t* halves, uint32_t threshold) {
  static_assert(std::endian::native == std::endian::little, "the halves of a word in memory are in order");
  const hn::RebindToSigned<D> wide;
  const hn::Rebind<int32_t, D> d32;
  const auto values = hn::PromoteTo(d32, hn::LoadU(hn::Rebind<uint16_t, D>(), halves));
  const auto above = [&](auto v) HWY_ATTR {
    return hn::RebindMask(d, hn::Gt(v, hn::Set(wide, static_cast<int32_t>(threshold) - 1)));
  };
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(int32_t)) {
    return above(values);
  } else {
    return above(hn::PromoteTo(wide, values));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
