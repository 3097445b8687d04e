#include "train/run/tensorboard_log.hpp"

#include <system_error>
#include <type_traits>

#include "autograd/core/check.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

Hparam to_hparam(const KeySpec& key, const Config& config) {
  const std::string toml = key.get(config);
  const ConfigValue value = read_toml_value(toml).value();
  if (const bool* flag = std::get_if<bool>(&value.data)) return {key.path(), *flag};
  if (const int64_t* integer = std::get_if<int64_t>(&value.data)) return {key.path(), static_cast<double>(*integer)};
  if (const double* number = std::get_if<double>(&value.data)) return {key.path(), *number};
  if (const std::string* text = std::get_if<std::string>(&value.data)) return {key.path(), *text};
  return {key.path(), toml};  // a list
}

std::vector<Hparam> hparams_of(const Config& config) {
  std::vector<Hparam> hparams;
  for (const KeySpec& key : schema()) {
    if (key.has_effect(config)) hparams.push_back(to_hparam(key, config));
  }
  return hparams;
}

void append(std::vector<Scalar>& scalars, const Evaluation& evaluation) {
  scalars.push_back({"val/loss", evaluation.loss});
  if (evaluation.excess) scalars.push_back({"val/excess", *evaluation.excess});
  if (evaluation.loss_ema) scalars.push_back({"val/loss_ema", *evaluation.loss_ema});
}

}  // namespace

TensorBoardLog::TensorBoardLog(const fs::path& run_folder, const Config& config, int64_t steps_done) {
  if (!config.train.tensorboard) return;
  const fs::path folder = run_folder / kTensorBoardFolder;
  std::error_code error;
  fs::create_directory(folder, error);
  require<CheckpointError>(!error, "cannot make {}: {}", folder.string(), error.message());
  file_.emplace(folder, steps_done + 1);
  file_->add_hparams(hparams_of(config));
  file_->flush();
}

void TensorBoardLog::write(const MetricsRow& row, const std::optional<Evaluation>& evaluation) {
  if (!file_) return;
  std::vector<Scalar> scalars = {{"train/loss", row.train_loss},
                                 {"train/learning_rate", row.learning_rate},
                                 {"train/grad_norm", row.grad_norm},
                                 {"train/tokens_per_s", row.tokens_per_s}};
  if (evaluation) append(scalars, *evaluation);
  file_->add_scalars(row.step, scalars);
}

void TensorBoardLog::write(int64_t step, const Evaluation& evaluation) {
  if (!file_) return;
  std::vector<Scalar> scalars;
  append(scalars, evaluation);
  file_->add_scalars(step, scalars);
}

void TensorBoardLog::write(int64_t step, const std::vector<ParameterNorms>& layers) {
  if (!file_) return;
  for (const ParameterNorms& layer : layers) {
    file_->add_scalars(step, {{"weight_norm/" + layer.layer, layer.weight},
                              {"grad_norm/" + layer.layer, layer.grad},
                              {"update_norm/" + layer.layer, layer.update}});
  }
}

void TensorBoardLog::write_picture(int64_t step, std::string_view png) {
  constexpr size_t kWidthAt = 16, kHeightAt = 20, kHeaderBytes = 24;  // big-endian numbers of the IHDR chunk
  if (!file_ || png.size() < kHeaderBytes) return;
  const auto number_at = [&](size_t place) {
    int64_t number = 0;
    for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(png[place + i]);
    return number;
  };
  file_->add_image(step, "curves", {.width = number_at(kWidthAt), .height = number_at(kHeightAt), .png = png});
  file_->flush();
}

void TensorBoardLog::end(RunStatus status) {
  if (!file_ || (status != RunStatus::completed && status != RunStatus::diverged)) return;
  file_->add_hparams_end(status == RunStatus::completed ? SessionStatus::success : SessionStatus::failure);
  file_->flush();
}

void TensorBoardLog::flush() {
  if (file_) file_->flush();
}

void TensorBoardLog::sync() {
  if (file_) file_->sync();
}

}  // namespace heed::train
