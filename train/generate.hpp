// `heed generate`: text from a checkpoint.
#pragma once

#include <functional>
#include <string>

#include "train/sampler.hpp"
#include "train/snapshot.hpp"

namespace heed::train {

struct GenerateOptions {
  std::string checkpoint = {};
  std::string prompt = {};    // text; token ids with spaces where the model has no tokenizer
  bool skip_unknown = false;  // leave out characters of the prompt that have no token
  int64_t num_tokens = 200;   // most tokens of a sample
  int64_t num_samples = 1;
  uint32_t seed = 1;
  SamplerOptions sampler = {};
};

// The prompt's tokens; for an empty prompt the start token (data/tokenizer.hpp), which is not printed.
// Throws DataError for a character that has no token, naming it and its position.
std::vector<int32_t> prompt_tokens(const LoadedModel& loaded, const GenerateOptions& options);

// Calls emit(token) for each new token, until num_tokens or the end token, which is not given out. The model sees the
// last seq_len tokens at most, at positions from 0. So up to seq_len tokens in all, each new one costs one row through
// the model; behind that every position moves with each token, and it costs seq_len rows. Sample number `sample` draws
// its own random numbers.
void generate(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateOptions& options, int64_t sample,
              const std::function<void(int32_t)>& emit);

// Prints the samples to stdout as they come, each closed by a line feed.
void run_generate(const GenerateOptions& options);

}  // namespace heed::train
