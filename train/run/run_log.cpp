#include "train/run/run_log.hpp"

namespace heed::train {

RunLog::RunLog(const std::filesystem::path& folder, const Config& config, std::optional<int64_t> resumed_step)
    : log_interval_(config.train.log_interval),
      layers_(config.train.log_layers ? std::optional<LayersFile>(std::in_place, folder / kLayersFile, resumed_step)
                                      : std::nullopt),
      metrics_(folder / "metrics.csv", resumed_step, config.optim.ema_decay > 0),
      tensorboard_(folder, config, resumed_step.value_or(0)) {}

void RunLog::write(const MetricsRow& row, const std::optional<Evaluation>& evaluation) {
  metrics_.write(row);
  tensorboard_.write(row, evaluation);
  if (evaluation || row.step % log_interval_ == 0) flush();
}

void RunLog::write(int64_t step, const std::vector<ParameterNorms>& layers) {
  layers_->write(step, layers);
  tensorboard_.write(step, layers);
}

void RunLog::set_evaluation(int64_t step, const Evaluation& evaluation) {
  // The row has the loss already if only the save of best.h5 had failed, or if the evaluation is made up for again.
  if (!metrics_.set_last(step, {{MetricsFile::Column::val_loss, evaluation.loss},
                                {MetricsFile::Column::val_loss_ema, evaluation.loss_ema}})) {
    return;
  }
  tensorboard_.write(step, evaluation);
  tensorboard_.flush();
}

void RunLog::set_final(int64_t step, const Evaluation& evaluation) {
  metrics_.set_last(step, {{MetricsFile::Column::final_val_loss, evaluation.loss},
                           {MetricsFile::Column::final_val_loss_ema, evaluation.loss_ema}});
}

void RunLog::flush() {
  metrics_.flush();
  tensorboard_.flush();
}

void RunLog::sync() {
  metrics_.sync();
  tensorboard_.sync();
}

}  // namespace heed::train
