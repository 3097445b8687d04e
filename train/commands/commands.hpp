// The commands at, eval, export, import, gradcheck, info, plot and report, one source file each. The others are in
// train/run/run.hpp (train), train/commands/generate.hpp, train/bench/bench.hpp and train/commands/main.cpp (data,
// config).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/huggingface/export_model.hpp"
#include "train/trainer/evaluator.hpp"

namespace heed::train {

struct AtOptions {
  std::string run;  // the run folder, also of a run that still trains
  std::optional<int64_t> step = {};
  std::string export_folder = {};  // empty: none
};

// `heed at`: rebuilds the state of a run after any of its steps (train/run/past_step.hpp), saves it as one of the
// checkpoints of the run, and prints where it began and a checksum of the weights; export_folder: also writes what
// `heed export` writes. Without a step it prints what a rebuild costs. Throws what load_named_checkpoint() and
// export_model() throw, ConfigError if the folder is not that of a run or another process trains in it.
void run_at(const AtOptions& options);

struct EvalOptions {
  std::string checkpoint = {};
  std::vector<std::string> overrides = {};  // table.key=value
  int64_t seq_len = 0;                      // the context length; 0: model.seq_len
  bool by_position = false;                 // also print the loss by position
  std::string csv = {};                     // file for the losses by position; empty: none
  std::optional<std::string> text = {};     // evaluate this text instead of the data of the run
  std::string text_file = {};               // or the text in this file; "-": stdin; empty: none
  EvaluatedWeights weights = EvaluatedWeights::last;
};

// `heed eval`: the loss of a checkpoint on every target of the run's validation and test splits, or of another text.
//
// A loss is a validation loss only on targets that the model was not trained on. Therefore the data must be that of the
// run, by its fingerprint, with the splits of the run, and the model is the checkpoint's:
// train/run/checkpoint_match.hpp lists the keys that may be set. If data.path names a file with other contents, all of
// it is evaluated as one text, with the checkpoint's tokenizer, and the output says that it is another text and not the
// run's validation split. A text of the command line is evaluated in the same way.
//
// Sequences are consecutive: each target is predicted once, from the tokens of its sequence before it. With another
// seq_len they are longer or shorter than in training, so that the loss shows how the model uses its context.
//
// Prints loss (nats per target), perplexity and, for text, bits per byte. checkpoint: a .h5 file, or a run folder,
// of which last.h5 is used. Throws what loading the checkpoint and the dataset throws, ConfigError for a key that
// cannot be set or has no effect, for a seq_len for which the model has no positions, and for a csv that exists and is
// not such a file; DataError if the data is not that of the run or there is nothing to evaluate, DivergedError for a
// loss that is not finite.
void run_eval(const EvalOptions& options);

// `heed gradcheck`: checks the gradients of every operation, and of a whole small GPT in each of its variants, against
// finite differences in f64.
//
// names: operations to check, or "gpt"; empty: all. Prints a line for each and returns whether all passed. Throws
// ConfigError for an unknown name, with the list of known names.
bool run_gradcheck(const std::vector<std::string>& names);

// `heed export`: writes a checkpoint as a folder for transformers, and prints what is in it. Throws what export_model()
// throws (train/huggingface/export_model.hpp).
void run_export(const ExportOptions& options);

struct ImportOptions {
  std::string folder;
  std::string checkpoint;
};

// `heed import`: reads a model folder of transformers and writes it as a checkpoint, which generate, eval, export and
// train.init_from read; prints the [model] table of a config file that continues training it. Throws what
// import_model() throws (train/huggingface/import_model.hpp), and DataError if the checkpoint exists or cannot be
// written.
void run_import(const ImportOptions& options);

struct PlotOptions {
  std::vector<std::string> folders;  // or RUN@STEP
  std::string output;                // empty: plot.svg, for one whole folder in it, otherwise in the current one
};

// `heed plot`: draws runs and sweeps into one picture and prints its path. Throws what plot_runs() throws
// (train/plot/plot.hpp), ConfigError for an empty name.
void run_plot(const PlotOptions& options);

struct ReportOptions {
  std::string folder;
  std::string output;  // empty: report.html in the folder
};

// `heed report`: writes the page of a run or of a sweep, and prints its path; and why it has no picture, if so. Throws
// what write_report() throws (train/report/report.hpp).
void run_report(const ReportOptions& options);

// `heed info`: the features of this build, and the available devices.
void run_info();

}  // namespace heed::train
