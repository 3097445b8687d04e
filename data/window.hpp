// What the sources of text share: padded windows, and where their random numbers come from.
#pragma once

#include "autograd/core/philox.hpp"
#include "data/source.hpp"

namespace heed::data {

// Places of random numbers beside those of the synthetic sources (RandomPlace in data/dirichlet.hpp).
enum class TextRandomPlace : uint32_t { train_windows = 16, line_order = 17 };

RandomStream text_stream(uint32_t seed, TextRandomPlace place, uint64_t update);

// One of 0 … count - 1, each as likely: floor(uniform(index) · count). count at most 2^52.
int64_t random_below(const RandomStream& stream, uint64_t index, int64_t count);

// As shift_window(), for 2 … T + 1 tokens: the rest of inputs is 0 and the rest of targets kIgnoreTarget.
void shift_padded_window(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets);

// Windows of T targets that cover num_targets targets, the last one perhaps in part.
int64_t windows_to_cover(int64_t num_targets, int64_t seq_len);

}  // namespace heed::data
