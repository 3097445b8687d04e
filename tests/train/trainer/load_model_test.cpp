// A model out of a checkpoint is the model that was saved, or an error.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/train/tiny.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/commands/commands.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {
namespace {

using test::tiny_config;

CheckpointContent trained(const std::vector<std::string>& overrides = {}) {
  Trainer trainer(tiny_config(overrides));
  for (int i = 0; i < 3; ++i) trainer.train_step();
  return snapshot(trainer, {});
}

template <class E>
std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

// In bf16 the low-precision copies of the weights are computed with; only the f32 weights are stored.
TEST(LoadModel, GivesTheLossOfTheModelThatWasSaved) {
  for (const char* precision : {"f32", "bf16", "f64"}) {
    Trainer trainer(tiny_config({std::string("precision=") + precision, "learning_rate=0.1"}));
    for (int i = 0; i < 3; ++i) trainer.train_step();
    const double before = trainer.evaluate(data::Split::validation, 2).loss;
    const LoadedModel loaded = load_model(snapshot(trainer, {}));
    const data::BatchLoader loader(trainer.dataset(), loaded.config.model.seq_len, loaded.config.train.batch_size);
    const double after = evaluate(*loaded.model, trainer.dataset(), loader, data::Split::validation,
                                  loaded.config.train.rows_per_micro_batch(), 2, trainer.ranks())
                             .loss;
    EXPECT_EQ(after, before) << precision;
    EXPECT_EQ(loaded.step, 3);
  }
}

TEST(LoadModel, NamesATensorThatBelongsToNoParameter) {
  for (const char* name : {"parameters/blocks.2.mlp.weight", "optimizer/m/head.weight", "ema/token_embedding.weight",
                           "token_embedding.weight"}) {
    CheckpointContent content = trained();
    content.tensors.emplace(name, zeros({2, 2}, DType::f32));
    const std::string text = error_of<CheckpointError>([&] { load_model(content); });
    EXPECT_NE(text.find(std::string("tensors/") + name + " "), std::string::npos) << text;
  }
}

TEST(LoadModel, RefusesAModelOfOtherSizes) {
  CheckpointContent content = trained();
  for (const char* overrides : {"num_layers=1", "d_model=32", "vocab_size=7", "tie_embeddings=false"}) {
    content.texts["config"] = config_to_toml(tiny_config({overrides}));
    error_of<CheckpointError>([&] { load_model(content); });
  }
}

TEST(LoadModel, TakesOnlyKeysThatMayBeSet) {
  const CheckpointContent content = trained();
  EXPECT_EQ(load_model(content, {"train.precision=bf16", "batch_size=24", "device=cpu"}).config.train.batch_size, 24);
  for (const char* overrides : {"num_heads=4", "model.norm_eps=0.1", "data.seed=7", "order=2", "steps=3"}) {
    const std::string text = error_of<ConfigError>([&] { load_model(content, {overrides}); });
    EXPECT_NE(text.find(overrides), std::string::npos) << text;
    EXPECT_NE(text.find("data.path, train.device, train.precision"), std::string::npos) << text;
  }
}

TEST(Eval, RefusesALossThatIsNotFinite) {
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "nan.h5").string();
  CheckpointContent content = trained();
  Tensor& gain = content.tensors.at("parameters/last_norm.weight");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  gain = from_values(gain.shape(), gain.dtype(), std::vector<double>(static_cast<size_t>(gain.numel()), nan));
  save_checkpoint(file, content);
  const std::string text = error_of<DivergedError>([&] { run_eval({.checkpoint = file}); });
  EXPECT_NE(text.find("validation loss is nan"), std::string::npos) << text;
}

}  // namespace
}  // namespace heed::train
