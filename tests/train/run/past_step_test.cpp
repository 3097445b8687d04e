// RUN@STEP must be the run as it was after that step, bit for bit.
#include "train/run/past_step.hpp"

#include <gtest/gtest.h>

#include "tests/train/tiny.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/run/run.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using test::tiny_config;
using Overrides = std::vector<std::string>;

class PastStep : public testing::Test {
 protected:
  // Trains twice: "every" saves each step, "some" only some of them.
  void train_both(const Overrides& more) const {
    run("every", more, {"save_interval=1", "keep_checkpoints=1000"});
    run("some", more, {"save_interval=5", "keep_checkpoints=2"});
  }
  void run(const std::string& name, const Overrides& more, const Overrides& own, bool resume = false) const {
    Overrides all{"eval_interval=7", "final_eval=none", "warmup_steps=5", "train.run_dir=" + path(name).string()};
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), own.begin(), own.end());
    run_training(tiny_config(all), {.resume = resume, .read_pretrained = read_pretrained});
  }
  NamedCheckpoint rebuild(const std::string& name, int64_t step) const {
    return load_named_checkpoint(fmt::format("{}@{}", path(name).string(), step), read_pretrained);
  }
  void expect_saved_state(const std::string& name, int64_t step) const {
    const CheckpointContent rebuilt = rebuild(name, step).content;
    const CheckpointContent saved = rebuild("every", step).content;
    EXPECT_EQ(rebuilt.integer("step"), step);
    EXPECT_EQ(rebuilt.integer("tokens"), saved.integer("tokens"));
    EXPECT_EQ(rebuilt.integer("optimizer_steps"), saved.integer("optimizer_steps"));
    ASSERT_EQ(rebuilt.tensors.size(), saved.tensors.size());
    for (const auto& [tensor, values] : saved.tensors) {
      EXPECT_EQ(rebuilt.tensors.at(tensor).values(), values.values()) << name << "@" << step << " " << tensor;
    }
  }
  void expect_error(const std::string& name, int64_t step, const std::string& part) const {
    try {
      rebuild(name, step);
      ADD_FAILURE() << "no error; expected: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  test::TemporaryFolder folder_;
};

TEST_F(PastStep, IsTheStateOfThatStep) {
  const Overrides forms[] = {
      {"model.dropout=0.1", "model.attention_dropout=0.1", "micro_batch_size=6"},
      {"optimizer=muon", "adamw_learning_rate=3e-3", "num_kv_heads=1", "ema_decay=0.9"},
      {"optimizer=sgd", "momentum=0.9"},
      {"precision=bf16"},
  };
  for (const Overrides& form : forms) {
    train_both(form);
    for (int64_t step = 1; step <= 20; ++step) expect_saved_state("some", step);
  }
}

TEST_F(PastStep, RepeatsOnlyTheStepsAfterTheNearestCheckpoint) {
  train_both({});
  const auto expect_origin = [&](int64_t step, const std::string& file, int64_t repeated) {
    const NamedCheckpoint rebuilt = rebuild("some", step);
    EXPECT_EQ(fs::path(rebuilt.first_file).filename(), file) << step;
    EXPECT_EQ(rebuilt.repeated_steps, repeated) << step;
  };
  // Kept: 10, 15 (the newest replaced), last = 20; best.h5 is of step 20, too.
  expect_origin(0, "", 0);
  expect_origin(9, "", 9);
  expect_origin(10, "step-000010.h5", 0);
  expect_origin(14, "step-000010.h5", 4);
  expect_origin(19, "step-000015.h5", 4);
  const RebuildCost cost = rebuild_cost(path("some"));
  EXPECT_EQ(cost.steps, (std::vector<int64_t>{10, 15, 20}));
  EXPECT_EQ(cost.last_step, 20);
  EXPECT_EQ(cost.most_steps, 9);
  fs::resize_file(path("some") / "checkpoints" / "step-000010.h5", 1000);  // damaged: an earlier one serves
  expect_origin(14, "", 14);
  expect_saved_state("some", 14);
}

// After a kill metrics.csv may know more steps than the last checkpoint, and a run that diverged may have none.
TEST_F(PastStep, MayComeAfterTheLastCheckpoint) {
  train_both({});
  fs::remove_all(path("some") / "checkpoints");
  for (const int64_t step : {1, 20}) expect_saved_state("some", step);
}

// Checkpoints that a run has left behind when it was resumed from an earlier one.
TEST_F(PastStep, PassesOverCheckpointsOfAnAbandonedBranch) {
  train_both({});
  run("other", {"seed=2"}, {"save_interval=5", "keep_checkpoints=2"});
  for (const char* file : {"step-000010.h5", "step-000015.h5", "last.h5"}) {
    fs::copy_file(path("other") / "checkpoints" / file, path("some") / "checkpoints" / file,
                  fs::copy_options::overwrite_existing);
  }
  for (const int64_t step : {10, 12, 15, 20}) expect_saved_state("some", step);
}

TEST_F(PastStep, FollowsARunThatWasResumedWithOtherKeys) {
  run("some", {}, {"steps=12"});
  run("some", {}, {"steps=20", "keep_checkpoints=5"}, true);
  run("every", {}, {"steps=12", "save_interval=1", "keep_checkpoints=1000"});
  run("every", {}, {"steps=20", "save_interval=1", "keep_checkpoints=1000"}, true);
  for (const int64_t step : {5, 12, 13, 19}) expect_saved_state("some", step);
}

TEST_F(PastStep, FollowsARunThatStartedFromAnotherStep) {
  run("base", {"steps=6"}, {});
  const Overrides from{"init_from=" + path("base").string() + "@4"};
  train_both(from);
  for (const int64_t step : {0, 3}) expect_saved_state("some", step);
  EXPECT_NE(rebuild("some", 0).content.tensors.at("parameters/token_embedding.weight").values(),
            rebuild("base", 0).content.tensors.at("parameters/token_embedding.weight").values());
}

TEST_F(PastStep, IsRefusedIfARepeatedStepDiffers) {
  run("some", {}, {"save_interval=10"});
  const fs::path metrics = path("some") / "metrics.csv";
  std::string text = test::read_file(metrics);
  const size_t row = text.find("\n13,"), loss = text.find(',', row + 4) + 3;
  text[loss] = text[loss] == '9' ? '8' : static_cast<char>(text[loss] + 1);
  std::ofstream(metrics) << text;
  EXPECT_EQ(rebuild("some", 11).content.integer("step"), 11);
  for (const int64_t step : {12, 13}) {  // what the weights of 12 are shows in the loss of 13
    expect_error("some", step, fmt::format("@{} cannot be rebuilt exactly: step 13 now gives loss", step));
  }
  const size_t next = text.find('\n', row + 1);
  std::ofstream(metrics) << text.substr(0, row) << text.substr(next);
  expect_error("some", 13, "metrics.csv has no row of step 13");
  expect_error("some", 21, "the run has done 20 steps; STEP must be 0 to 20");
  expect_error("none", 1, "is not a run folder");
}

TEST(RunStepName, IsARunAndANumber) {
  const auto parts = [](const std::string& text) {
    const std::optional<RunStep> at = parse_run_step(text);
    return at ? fmt::format("{} {}", at->run.string(), at->step) : "none";
  };
  EXPECT_EQ(parts("runs/x@12"), "runs/x 12");
  EXPECT_EQ(parts("a@b@0"), "a@b 0");
  for (const char* text : {"runs/x", "x@", "@3", "x@-1", "x@1.5", "x@1a", "x@99999999999999999999"}) {
    EXPECT_EQ(parts(text), "none") << text;
  }
  const test::TemporaryFolder folder;
  const fs::path existing = folder.path() / "run@7";
  EXPECT_EQ(parts(existing.string()), folder.path().string() + "/run 7");
  fs::create_directory(existing);
  EXPECT_EQ(parts(existing.string()), "none");
}

}  // namespace
}  // namespace heed::train
