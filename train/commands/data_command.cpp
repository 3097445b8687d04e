#include "autograd/core/check.hpp"
#include "data/prepare.hpp"
#include "train/commands/command_options.hpp"
#include "train/commands/command_runner.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/run/version.hpp"

namespace heed::train {
namespace {

using Options = std::shared_ptr<data::PrepareConfig>;

void add_prepare(CLI::App& data, const Options& options, const Runner& run) {
  using data::TokenizerKind;
  data::PrepareConfig& p = *options;
  CLI::App* command = data.add_subcommand("prepare", "Tokenize a text file, for data.source = \"tokens\".");
  add_path(command, "text", p.text_path, "UTF-8 text; any bytes for byte, bpe and file.")->required();
  add_path(command, "output", p.output_path, "The HDF5 file to make; it must not exist.")->required();
  add_choice<TokenizerKind>(
      command, "--tokenizer", p.tokenizer,
      {{"char", TokenizerKind::character},
       {"byte", TokenizerKind::byte},
       {"bpe", TokenizerKind::bpe},
       {"file", TokenizerKind::file}},
      "char: a token for each character; byte: for each byte; bpe: byte-pair encoding, learned from "
      "the text; file: byte-level BPE from --tokenizer-file.");
  CLI::Option* tokenizer_file =
      add_path(command, "--tokenizer-file", p.tokenizer_file,
               "A tokenizer.json, or a folder with it or with vocab.json and merges.txt; only for file.");
  p.vocab_size = 512;
  CLI::Option* vocab_size = add_integer(command, "--vocab-size", p.vocab_size, {256, data::Tokenizer::kMaxVocabSize},
                                        "The vocabulary size, only for bpe.");
  add_number(command, "--val-fraction", p.val_fraction, {0, 0.99}, "The fraction for validation; 0: none.");
  add_number(command, "--test-fraction", p.test_fraction, {0, 0.99}, "The fraction for the test; 0: none.");
  run.alone(command, "data prepare", [options, vocab_size, tokenizer_file] {
    data::PrepareConfig& chosen = *options;
    require<ConfigError>(vocab_size->count() == 0 || chosen.tokenizer == TokenizerKind::bpe,
                         "--vocab-size has no effect with --tokenizer {}, it is only for bpe: leave it out",
                         data::tokenizer_name(chosen.tokenizer));
    require<ConfigError>((tokenizer_file->count() > 0) == (chosen.tokenizer == TokenizerKind::file),
                         "--tokenizer {} and {}: --tokenizer file and --tokenizer-file PATH go together",
                         data::tokenizer_name(chosen.tokenizer),
                         tokenizer_file->count() > 0 ? "--tokenizer-file" : "no --tokenizer-file");
    chosen.written_by = std::string("heed ") + kVersion;
    data::prepare_token_file(chosen, text_progress());
    print("{}", data::describe_token_file(chosen.output_path));
    return 0;
  });
}

}  // namespace

void add_data(CLI::App& app, const Runner& run) {
  CLI::App* data = app.add_subcommand("data", "Tokenize text files; inspect token files.");
  data->require_subcommand(1);
  const auto options = std::make_shared<data::PrepareConfig>();
  add_prepare(*data, options, run);
  CLI::App* info = data->add_subcommand("info", "Show what a token file holds, and check every token.");
  add_path(info, "file", options->output_path, "A token file.")->required();
  run.in_each(info, [options] {
    print("{}", data::describe_token_file(options->output_path, text_progress()));
    return 0;
  });
}

}  // namespace heed::train
