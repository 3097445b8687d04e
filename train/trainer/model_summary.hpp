// What a config costs, before anything is allocated: parameters, FLOPs, KV cache, memory.
#pragma once

#include <string>

#include "train/config/config.hpp"

namespace heed::train {

// Several lines, for `heed config CONFIG`. While the size of the vocabulary is not known (characters of a text that has
// not been read, a token file), it counts as 1, and a line says so. The memory is that of
// one rank that processes the whole batch.
std::string model_summary(const Config& config);

}  // namespace heed::train
