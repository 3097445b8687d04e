// What `heed inspect` shows and writes: tables for a terminal of 80 columns, heads.csv, and the content of inspect.h5.
#pragma once

#include <functional>
#include <string>

#include "train/checkpoint/checkpoint_content.hpp"
#include "train/inspect/inspection.hpp"

namespace heed::train {

struct InspectionReport {
  Inspection inspection;
  data::Batch sequences;
  std::string checkpoint;                          // "runs/x/checkpoints/last.h5, step 2000"
  std::string description;                         // of the sequences: "64 validation sequences of 64 tokens"
  bool shows_tokens = false;                       // a table with a line for each token of the first sequence
  std::function<std::string(int32_t)> token_text;  // as shown: 'a', or the id where tokens are no text
  // (T): the loss of the dataset's exact distribution by position; empty if it has none.
  std::vector<double> exact_position_loss;
};

std::string inspection_text(const InspectionReport& report);

// heads.csv: one row for each head; the scores are those of train/inspect/head_scores.hpp.
std::string heads_csv(const Inspection& inspection);

// The JSON document of the figure "heads" of plot.py: the attention patterns of the first 64 tokens of the first
// sequence, of at most 12 layers and 12 heads of each.
//   {"figure", "title", "subtitle", "tokens": [text], "layers": [[{"name", "pattern": [[p]]}]]}
std::string heads_document(const InspectionReport& report);

// N sequences of T tokens, without padding the first one has F; L layers of H heads:
//   /tensors/patterns (L, H, P, P) f32       of the first P tokens of the first sequence (Inspection::patterns)
//   /tensors/tokens, targets (N, T) i32      targets: -1 if there is none
//   /tensors/scores (L, H, 7), entropy, distance, mean_ablation (L, H), offset (L, H, T) f64
//   /tensors/uniform, largest (7) f64        the range of the scores (ScoreRange)
//   /tensors/exact_position_loss (T) f64     if the dataset's exact distribution is known
//   /tensors/position_loss (T), lens_loss (L + 1) f64, token_loss (F), token_lens_loss (L + 1, F) of the first sequence
//   /texts/kind "inspection", checkpoint, sequences, names (a line for each head), scores (a line for each score)
CheckpointContent inspection_content(const InspectionReport& report);

}  // namespace heed::train
