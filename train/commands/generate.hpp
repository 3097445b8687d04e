// `heed generate`: text from a checkpoint.
#pragma once

#include <functional>
#include <string>

#include "train/commands/sampler.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

struct GenerateOptions {
  std::string checkpoint = {};   // a .h5 file, or a run folder, which stands for its last.h5
  std::string prompt = {};       // text; token ids with spaces between where the model has no tokenizer
  std::string prompt_file = {};  // holds the prompt, byte for byte; "-": stdin; empty: options.prompt is the prompt
  bool skip_unknown = false;     // leave out characters of the prompt that have no token
  int64_t num_tokens = 200;      // most tokens of a sample
  int64_t num_samples = 1;
  uint32_t seed = 1;
  SamplerOptions sampler = {};
};

struct Prompt {
  std::vector<int32_t> tokens;
  int64_t num_given = 0;  // of these, the last ones: they stand for the text, and are printed before what is generated
};

// For an empty text the start token (data/text/tokenizer.hpp), which is not printed; where lines are sequences, the end
// token comes first. Throws DataError for a character that has no token, naming it and its position.
Prompt make_prompt(const LoadedModel& loaded, const std::string& text, bool skip_unknown);

// Calls emit(token) for each new token, until num_tokens or the end token, which is not given out. The model sees the
// last seq_len tokens at most, at positions from 0. So up to seq_len tokens in all, each new one costs one row through
// the model; behind that every position moves with each token, and it costs seq_len rows. Sample number `sample` draws
// its own random numbers.
void generate(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateOptions& options, int64_t sample,
              const std::function<void(int32_t)>& emit);

// Prints the samples to stdout as they come, each closed by a line feed: the prompt as the model sees it, then what the
// model generates, as UTF-8 at any time. Where a sample may have several lines and there is more than one, each begins
// with a line "──── sample 2 of 3 ────". Throws what loading throws, and DataError for a prompt file that cannot be
// read.
void run_generate(const GenerateOptions& options);

}  // namespace heed::train
