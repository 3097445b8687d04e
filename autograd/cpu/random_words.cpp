// A vector of 64-bit lanes holds one 32-bit part of as many counters. The 32 x 32 -> 64 bit product reads the lower
// half of a lane only, so what xor and shift leave in the upper half does no harm.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/random_words.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/random_words.hpp"
#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

void fill_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words) {
  for (int64_t i = 0; i < counters; ++i) {
    const PhiloxWords four = random.words(first_counter + static_cast<uint64_t>(i));
    std::memcpy(words + 4 * i, four.word, sizeof(four.word));
  }
}

#else

using D64 = hn::ScalableTag<uint64_t>;
using D32 = hn::Repartition<uint32_t, D64>;
using V64 = Vec<D64>;

struct Counters {
  V64 c0, c1, c2, c3;
};

HWY_INLINE V64 multiply(V64 a, uint32_t b) {
  const D32 d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b));
}

constexpr int kRounds = 10;

// The key of each round.
struct Keys {
  explicit Keys(const RandomStream& random) {
    constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
    for (uint32_t round = 0; round < kRounds; ++round) {
      k0[round] = random.seed + round * kWeyl0;
      k1[round] = random.site + round * kWeyl1;
    }
  }
  uint32_t k0[kRounds], k1[kRounds];
};

HWY_INLINE V64 mix(V64 product, V64 counter, uint32_t key) {
  const V64 high = hn::ShiftRight<32>(product);
  return hn::Xor(hn::Xor(high, counter), hn::BitCast(D64(), hn::Set(D32(), key)));
}

HWY_INLINE Counters rounds(Counters c, const Keys& keys) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  for (int round = 0; round < kRounds; ++round) {
    const V64 product0 = multiply(c.c0, kMultiplier0), product1 = multiply(c.c2, kMultiplier1);
    c = {mix(product1, c.c1, keys.k0[round]), product1, mix(product0, c.c3, keys.k1[round]), product0};
  }
  return c;
}

// The lower halves of a and b side by side.
HWY_INLINE V64 pair(V64 a, V64 b) {
  const D32 d32;
  return hn::BitCast(D64(), hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(b)), hn::BitCast(d32, a)));
}

void fill_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words) {
  const D64 d;
  const D32 d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Keys keys(random);
  const V64 update_low = hn::Set(d, random.update), update_high = hn::Set(d, random.update >> 32);
  // Even lanes take the first half of the counters and odd lanes the second: then the interleaving below, which works
  // on 128 bits = one counter at a time, gives the words of each half in order.
  const V64 half = hn::ShiftRight<1>(hn::Iota(d, 0));
  const V64 order = hn::OddEven(hn::Add(half, hn::Set(d, static_cast<uint64_t>(lanes / 2))), half);
  HWY_ALIGN uint32_t last[4 * hn::MaxLanes(d)];
  for (int64_t i = 0; i < counters; i += lanes) {
    const V64 counter = hn::Add(order, hn::Set(d, first_counter + static_cast<uint64_t>(i)));
    const Counters c = rounds({counter, hn::ShiftRight<32>(counter), update_low, update_high}, keys);
    const V64 first_pair = pair(c.c0, c.c1), second_pair = pair(c.c2, c.c3);
    uint32_t* out = i + lanes <= counters ? words + 4 * i : last;
    hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d, first_pair, second_pair)), d32, out);
    hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d, first_pair, second_pair)), d32, out + 2 * lanes);
    if (out == last) std::memcpy(words + 4 * i, last, static_cast<size_t>(counters - i) * 4 * sizeof(uint32_t));
  }
}

#endif

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(fill_words);

void random_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(fill_words)(random, first_counter, counters, words);
}

}  // namespace heed::cpu
#endif
