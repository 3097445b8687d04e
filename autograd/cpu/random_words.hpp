// SIMD Philox4x32-10: bit-identical to core/philox.hpp and about seven times as fast.
#pragma once

#include "autograd/core/philox.hpp"

namespace heed::cpu {

// words[4 i + j] = word j of counter first_counter + i (the word of index 4 (first_counter + i) + j), for
// 0 <= i < counters and 0 <= j < 4.
void random_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words);

}  // namespace heed::cpu
