// Common parts of the text datasets: padded sequences and random streams.
#pragma once

#include "autograd/core/philox.hpp"
#include "data/source.hpp"

namespace heed::data {

// Places of random numbers, distinct from those of the synthetic datasets (RandomPlace in data/dirichlet.hpp).
enum class TextRandomPlace : uint32_t { train_windows = 16, line_order = 17 };

RandomStream text_stream(uint32_t seed, TextRandomPlace place, uint64_t update);

// Uniform random integer in [0, count): floor(uniform(index) · count). count is at most 2^52.
int64_t random_below(const RandomStream& stream, uint64_t index, int64_t count);

// As shift_window(), for 2 … T + 1 tokens: pads inputs with 0 and targets with kIgnoreTarget.
void shift_padded_window(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets);

// Number of sequences of T = seq_len targets that cover num_targets targets; the last one may be partial.
int64_t windows_to_cover(int64_t num_targets, int64_t seq_len);

}  // namespace heed::data
