#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/random_words.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/random_words.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

void fill_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words) {
  RandomVectors(random).fill(first_counter, counters, words);
}

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
