#include "train/commands/data_command.hpp"

#include "train/output/output.hpp"
#include "train/output/text_progress.hpp"

namespace heed::train {

void run_data_prepare(const data::PrepareConfig& config) {
  data::prepare_token_file(config, text_progress());
  print("{}", data::describe_token_file(config.output_path));
}

void run_data_info(const std::string& path) { print("{}", data::describe_token_file(path, text_progress())); }

}  // namespace heed::train
