#include "train/run/run_data.hpp"

#include "train/run/checkpoint_match.hpp"
#include "train/trainer/factory.hpp"

namespace heed::train {

RunData dataset_of_run(const Config& config, const std::shared_ptr<const data::Tokenizer>& tokenizer,
                       const CheckpointContent& content, const data::Progress& progress) {
  const auto cannot_be_made = [&](const std::exception& error) {
    return RunData{nullptr, fmt::format("checkpoint: {}; current: {}", content.text("data"), error.what())};
  };
  try {
    std::unique_ptr<data::Dataset> dataset = make_dataset(config, tokenizer, progress);
    std::string difference = data_difference(content, *dataset);
    return {std::move(dataset), std::move(difference)};
  } catch (const ConfigError& error) {
    return cannot_be_made(error);
  } catch (const DataError& error) {
    return cannot_be_made(error);
  }
}

}  // namespace heed::train
