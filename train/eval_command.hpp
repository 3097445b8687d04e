// `heed eval`: a checkpoint on the whole of its splits.
#pragma once

#include <string>
#include <vector>

namespace heed::train {

// Prints loss, perplexity and, for text, bits per byte of validation and test. overrides: keys of the checkpoint's
// config, data.path for a file that has moved. Throws what loading and the source throw, DataError for a tokenizer that
// is not the checkpoint's.
void run_eval(const std::string& checkpoint, const std::vector<std::string>& overrides);

}  // namespace heed::train
