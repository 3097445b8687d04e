// Philox words of a stream in vectors: the very bits of core/philox.hpp, some seven times as fast.
#pragma once

#include "autograd/core/philox.hpp"

namespace heed::cpu {

// words[4 i + j] = word j of counter first_counter + i (the word of index 4 (first_counter + i) + j), i < counters.
void random_words(const RandomStream& random, uint64_t first_counter, int64_t counters, uint32_t* words);

}  // namespace heed::cpu
