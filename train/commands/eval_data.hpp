// What `heed eval` evaluates: the data of the run, another text in its place, or a text of the command line.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

// Whether a key was set on the command line.
bool is_set(const Config& config, const char* key);

struct EvalData {
  std::unique_ptr<data::Dataset> dataset;
  int64_t seq_len = 0;
  bool is_of_run = false;  // if false, all of it is in Split::train
};

// The data of the run, or all of data.path if that names another text, in sequences of seq_len tokens. Throws
// DataError if the data is not that of the run and data.path is not set; ConfigError if seq_len does not suit the data.
EvalData find_eval_data(const LoadedModel& loaded, const CheckpointContent& content, int64_t seq_len);

// A text, normalized as a text file is; token ids separated by spaces if the model has no tokenizer. The sequences have
// seq_len tokens, or all of a shorter text. Keeps a reference to the tokenizer. what: the text in messages,
// "eval: --text". Throws DataError if the text has no target, and the errors of encode_text().
EvalData make_eval_text(const LoadedModel& loaded, const std::string& text, int64_t seq_len, const std::string& what);

}  // namespace heed::train
