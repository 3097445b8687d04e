// A run that stops and goes on must be the run that did not stop, bit for bit.
#include <gtest/gtest.h>

#include "tests/train/tiny.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/run/metrics.hpp"
#include "train/run/run.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::tiny_config;

// Everything that resuming could lose: dropout, warm-up, micro-batches, moments.
const std::vector<std::string> kFull{"model.dropout=0.1",  "model.attention_dropout=0.1",
                                     "micro_batch_size=6", "warmup_steps=5",
                                     "eval_interval=5",    "final_eval=subset"};

class Resume : public testing::Test {
 protected:
  Config config(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.end(), kFull.begin(), kFull.end());
    more.push_back("train.run_dir=" + (folder_.path() / name).string());
    return tiny_config(more);
  }
  fs::path last(const std::string& name) const { return folder_.path() / name / "checkpoints" / "last.h5"; }
  // metrics.csv without the columns of time.
  std::vector<std::string> rows(const std::string& name) const {
    std::vector<std::string> result;
    std::istringstream text(read_file(folder_.path() / name / "metrics.csv"));
    for (std::string line; std::getline(text, line);) {
      size_t end = 0;
      for (int comma = 0; comma < 6; ++comma) end = line.find(',', end) + 1;
      result.push_back(line.substr(0, end));
    }
    return result;
  }
  void expect_same_state(const std::string& a, const std::string& b) const {
    const CheckpointContent left = load_checkpoint(last(a)), right = load_checkpoint(last(b));
    ASSERT_EQ(left.tensors.size(), right.tensors.size());
    for (const auto& [name, tensor] : left.tensors) {
      EXPECT_EQ(tensor.values(), right.tensors.at(name).values()) << name;
    }
    EXPECT_EQ(left.integers, right.integers);
  }
  void expect_refused(const Config& now, const std::vector<std::string>& parts) const {
    try {
      run_training(now, {.resume = true});
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(Resume, IsTheRunWithoutAStop) {
  run_training(config("whole"));
  for (const int stop : {1, 4, 10}) {
    const std::string name = "stopped" + std::to_string(stop);
    run_training(config(name, {"stop_after=" + std::to_string(stop)}));
    EXPECT_EQ(load_checkpoint(last(name)).integer("step"), stop);
    run_training(config(name), {.resume = true});
    EXPECT_EQ(rows(name), rows("whole"));
    expect_same_state(name, "whole");
  }
}

TEST_F(Resume, WithMomentumToo) {
  const std::vector<std::string> sgd{"optimizer=sgd", "momentum=0.9"};
  run_training(config("whole", sgd));
  run_training(config("stopped", {"optimizer=sgd", "momentum=0.9", "stop_after=4"}));
  run_training(config("stopped", sgd), {.resume = true});
  EXPECT_EQ(rows("stopped"), rows("whole"));
  expect_same_state("stopped", "whole");
}

TEST_F(Resume, WithAveragedWeightsToo) {
  for (const char* optimizer : {"adamw", "sgd", "muon"}) {
    const std::string whole = std::string("whole_") + optimizer, stopped = std::string("stopped_") + optimizer;
    const auto average = [&](const std::string& name, std::vector<std::string> more) {
      more.insert(more.end(), {std::string("optimizer=") + optimizer, "ema_decay=0.99", "num_kv_heads=1"});
      return config(name, std::move(more));
    };
    run_training(average(whole, {}));
    run_training(average(stopped, {"stop_after=4"}));
    EXPECT_TRUE(load_checkpoint(last(stopped)).tensors.contains("optimizer/ema/token_embedding.weight"));
    run_training(average(stopped, {}), {.resume = true});
    EXPECT_EQ(rows(stopped), rows(whole));
    expect_same_state(stopped, whole);
    const auto expected = read_metrics(folder_.path() / whole / "metrics.csv");
    const auto found = read_metrics(folder_.path() / stopped / "metrics.csv");
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].val_loss_ema, expected[i].val_loss_ema) << "step " << found[i].step;
      EXPECT_EQ(found[i].val_loss_ema.has_value(), found[i].val_loss.has_value());
      EXPECT_EQ(found[i].final_val_loss_ema, expected[i].final_val_loss_ema);
    }
    EXPECT_TRUE(found.back().final_val_loss_ema);
    EXPECT_NE(found.back().final_val_loss_ema, found.back().final_val_loss);
  }
}

TEST_F(Resume, WithMuonToo) {
  const auto muon = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"optimizer=muon", "adamw_learning_rate=3e-3", "num_kv_heads=1"});
    return config(name, std::move(more));
  };
  run_training(muon("whole", {}));
  run_training(muon("stopped", {"stop_after=4"}));
  const CheckpointContent content = load_checkpoint(last("stopped"));
  EXPECT_TRUE(content.tensors.contains("optimizer/m/blocks.1.attention.qkv.weight"));
  EXPECT_FALSE(content.tensors.contains("optimizer/v/blocks.1.attention.qkv.weight"));
  EXPECT_TRUE(content.tensors.contains("optimizer/v/token_embedding.weight"));
  run_training(muon("stopped", {}), {.resume = true});
  EXPECT_EQ(rows("stopped"), rows("whole"));
  expect_same_state("stopped", "whole");
}

// 20 steps decay from step 16 on: the 17th step is the last one at the peak.
TEST_F(Resume, ExtendsARunFromTheStablePartOfItsSchedule) {
  const auto wsd = [&](const std::string& name, std::vector<std::string> more) {
    more.push_back("schedule=wsd");
    return config(name, std::move(more));
  };
  run_training(wsd("longer", {"steps=40"}));
  for (const char* stop : {"12", "17"}) {
    const std::string name = std::string("extended") + stop;
    run_training(wsd(name, {std::string("stop_after=") + stop}));
    run_training(wsd(name, {"steps=40"}), {.resume = true});
    EXPECT_EQ(rows(name), rows("longer"));
    expect_same_state(name, "longer");
  }
}

TEST_F(Resume, SaysThatADecayingRunCannotBeExtended) {
  const auto notices = [&](const std::string& name, const Config& now) {
    Trainer trainer(now);
    return restore(trainer, load_checkpoint(last(name))).notices;
  };
  run_training(config("a", {"schedule=wsd", "stop_after=17"}));
  EXPECT_EQ(notices("a", config("a", {"schedule=wsd", "steps=40"})).size(), 1u) << "only the changed key";
  const auto begun = notices("a", config("a", {"schedule=wsd", "decay_steps=10"}));
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_NE(begun[1].find("the decay now begins after step 11"), std::string::npos) << begun[1];
  run_training(config("b", {"schedule=wsd", "stop_after=18"}));
  const auto jump = notices("b", config("b", {"schedule=wsd", "steps=40"}));
  ASSERT_EQ(jump.size(), 2u);
  EXPECT_NE(jump[1].find("the decay of its run began after step 17"), std::string::npos) << jump[1];
}

TEST_F(Resume, TwiceGivesTheSameAgain) {
  run_training(config("a", {"stop_after=7"}));
  fs::copy(folder_.path() / "a", folder_.path() / "b", fs::copy_options::recursive);
  run_training(config("a"), {.resume = true});
  run_training(config("b"), {.resume = true});
  EXPECT_EQ(rows("a"), rows("b"));
  expect_same_state("a", "b");
}

TEST_F(Resume, ACompleteRunMakesNoStep) {
  run_training(config("a", {"steps=6"}));
  const auto before = rows("a");
  EXPECT_EQ(run_training(config("a", {"steps=6"}), {.resume = true}).steps, 6);
  EXPECT_EQ(rows("a"), before);
}

TEST_F(Resume, ForgetsTheRowsBehindTheCheckpoint) {
  run_training(config("whole"));
  run_training(config("a", {"stop_after=4"}));
  std::ofstream(folder_.path() / "a" / "metrics.csv", std::ios::app) << "5,480,9,,9,9,9,9\n6,57";
  run_training(config("a"), {.resume = true});
  EXPECT_EQ(rows("a"), rows("whole"));
}

TEST_F(Resume, MetricsThatCannotBeReadAreAnError) {
  run_training(config("a", {"stop_after=4"}));
  const fs::path metrics = folder_.path() / "a" / "metrics.csv";
  const std::string text = read_file(metrics), header = text.substr(0, text.find('\n') + 1);
  const auto refused = [&](const std::string& part) {
    const std::string before = fs::is_directory(metrics) ? "" : read_file(metrics);
    try {
      run_training(config("a"), {.resume = true});
      ADD_FAILURE() << "accepted";
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(metrics.string()), std::string::npos) << error.what();
    }
    EXPECT_EQ(fs::is_directory(metrics) ? "" : read_file(metrics), before);
  };
  for (const std::string& other : {std::string(), std::string("step,loss\n1,2\n"), text.substr(1)}) {
    std::ofstream(metrics) << other;
    refused("does not begin with the line step,tokens");
  }
  for (const char* row : {"x,1\n", "1\n", "\n", "0,1\n", "-1,1\n"}) {
    std::ofstream(metrics) << header << row;
    refused("after the row of step 0");
  }
  std::ofstream(metrics) << text.substr(0, text.find("\n4,") + 1) << "1,1\n";
  refused("is not the row of a later step");
  fs::remove(metrics);
  fs::create_directory(metrics);
  refused("folder");
}

TEST_F(Resume, MetricsThatAreMissingBeginAnew) {
  run_training(config("whole"));
  run_training(config("a", {"stop_after=4"}));
  fs::remove(folder_.path() / "a" / "metrics.csv");
  run_training(config("a"), {.resume = true});
  std::vector<std::string> expected = rows("whole");
  expected.erase(expected.begin() + 1, expected.begin() + 5);
  EXPECT_EQ(rows("a"), expected);
}

// Killed between a new best and the next save: best.h5 is of a step that the newest checkpoint does not know.
TEST_F(Resume, ABestFromBehindTheCheckpointIsFoundAgain) {
  const auto now = [&](const std::string& name, const char* stop) {
    return config(name, {"learning_rate=1e-2", std::string("stop_after=") + stop});
  };
  const auto best = [&](const std::string& name) { return folder_.path() / name / "checkpoints" / "best.h5"; };
  const auto step_of_best = [&](const std::string& name) { return load_checkpoint(best(name)).integer("step"); };
  run_training(now("whole", "17"));
  run_training(now("a", "7"));
  run_training(now("ahead", "12"));
  ASSERT_EQ(step_of_best("whole"), 15);
  ASSERT_EQ(step_of_best("a"), 5);
  ASSERT_EQ(step_of_best("ahead"), 10);
  fs::copy_file(best("ahead"), best("a"), fs::copy_options::overwrite_existing);
  fs::copy(folder_.path() / "a", folder_.path() / "short", fs::copy_options::recursive);

  run_training(now("a", "17"), {.resume = true});
  EXPECT_EQ(rows("a"), rows("whole"));
  expect_same_state("a", "whole");
  EXPECT_EQ(step_of_best("a"), 15);
  EXPECT_EQ(load_checkpoint(last("a")).real("best_val_loss"), load_checkpoint(last("whole")).real("best_val_loss"));

  // This run ends before that step and knows no best, but there is nothing in its place: the file stays.
  EXPECT_FALSE(run_training(now("short", "8"), {.resume = true}).best_val_loss);
  EXPECT_EQ(step_of_best("short"), 10);
  run_training(now("short", "17"), {.resume = true});
  EXPECT_EQ(step_of_best("short"), 15);
}

TEST_F(Resume, ABestThatIsGoneOrDamagedIsFoundAnew) {
  for (const bool damaged : {false, true}) {
    const std::string name = damaged ? "damaged" : "gone";
    run_training(config(name, {"stop_after=7"}));
    const fs::path best = folder_.path() / name / "checkpoints" / "best.h5";
    fs::remove(best);
    if (damaged) std::ofstream(best) << "damaged";
    CheckpointContent content = load_checkpoint(last(name));
    content.reals["best_val_loss"] = 0;  // no later loss is below
    save_checkpoint(last(name), content);
    run_training(config(name, {"stop_after=12"}), {.resume = true});
    EXPECT_EQ(load_checkpoint(best).integer("step"), 10);
    EXPECT_EQ(load_checkpoint(best).real("best_val_loss"), load_checkpoint(last(name)).real("best_val_loss"));
  }
}

TEST_F(Resume, ADamagedConfigInACheckpointIsTheCheckpointsFault) {
  run_training(config("a", {"stop_after=2"}));
  CheckpointContent content = load_checkpoint(last("a"));
  EXPECT_THROW(load_model(content, {"num_layers=x"}), ConfigError);
  for (const char* text : {"[model]\nnum_layers = 0", "[model", "[data]\nsource = \"markov\"", ""}) {
    content.texts["config"] = text;
    save_checkpoint(last("a"), content);
    for (const bool resume : {true, false}) {
      try {
        if (resume) run_training(config("a"), {.resume = true});
        if (!resume) load_model(load_checkpoint(last("a")), {"batch_size=1"});
        ADD_FAILURE() << "accepted";
      } catch (const CheckpointError& error) {
        EXPECT_NE(std::string(error.what()).find(last("a").string() + ": config"), std::string::npos) << error.what();
      }
    }
  }
  content = load_checkpoint(last("a"));
  content.texts["config"] = config_to_toml(config("a"));
  content.texts["tokenizer"] = "none";
  EXPECT_THROW(load_model(content), CheckpointError);
}

TEST_F(Resume, NamesEveryKeyThatDiffers) {
  run_training(config("a", {"stop_after=2"}));
  expect_refused(config("a", {"num_layers=3"}), {"model.num_layers (checkpoint: 2, current: 3)"});
  // All shapes agree, and still it is another model.
  expect_refused(config("a", {"num_heads=4"}),
                 {"model.num_heads (checkpoint: 2, current: 4)", ", model.num_kv_heads ("});
  expect_refused(config("a", {"seq_len=16"}), {"model.seq_len"});
  expect_refused(config("a", {"vocab_size=7"}), {"data.vocab_size (checkpoint: 6, current: 7)"});
  expect_refused(config("a", {"tie_embeddings=false"}), {"model.tie_embeddings (checkpoint: true, current: false)"});
  expect_refused(config("a", {"learning_rate=2e-3"}), {"optim.learning_rate"});
  expect_refused(config("a", {"ema_decay=0.9"}), {"optim.ema_decay (checkpoint: 0.0, current: 0.9)"});
  EXPECT_NO_THROW(run_training(config("a", {"eval_batches=1", "log_interval=3", "stop_after=3"}), {.resume = true}));
}

TEST_F(Resume, RefusesToEndBeforeTheCheckpoint) {
  run_training(config("a", {"stop_after=4"}));
  const std::string before = read_file(last("a"));
  expect_refused(config("a", {"stop_after=3"}), {"the checkpoint is at step 4", "train.stop_after = 3"});
  EXPECT_EQ(read_file(last("a")), before);
}

TEST_F(Resume, SecondsAndLossGoOn) {
  const Summary first = run_training(config("a", {"stop_after=4"}));
  const double saved_seconds = load_checkpoint(last("a")).real("wall_seconds");
  const Summary again = run_training(config("a", {"stop_after=4"}), {.resume = true});
  EXPECT_EQ(again.train_loss, first.train_loss);
  EXPECT_GT(saved_seconds, 0);
  EXPECT_GT(again.seconds, saved_seconds);
}

TEST_F(Resume, NeverStartsAgainInSilence) {
  EXPECT_THROW(run_training(config("nothing"), {.resume = true}), CheckpointError);
  run_training(config("a", {"stop_after=2", "keep_checkpoints=0"}));
  std::ofstream(last("a"), std::ios::trunc) << "damaged";
  EXPECT_THROW(run_training(config("a"), {.resume = true}), CheckpointError);
}

TEST_F(Resume, FallsBackToThePreviousCheckpoint) {
  run_training(config("whole"));
  run_training(config("a", {"stop_after=6", "save_interval=3"}));
  std::ofstream(last("a"), std::ios::trunc) << "damaged";
  run_training(config("a"), {.resume = true});
  EXPECT_EQ(rows("a"), rows("whole"));
}

TEST_F(Resume, StepsBelowTheIntervalStillLeaveACheckpoint) {
  run_training(config("a", {"steps=6", "save_interval=100"}));
  EXPECT_EQ(load_checkpoint(last("a")).integer("step"), 6);
}

TEST_F(Resume, BestIsTheLowestEvaluation) {
  run_training(config("a", {"learning_rate=1e-2"}));
  const CheckpointContent best = load_checkpoint(folder_.path() / "a" / "checkpoints" / "best.h5");
  const CheckpointContent newest = load_checkpoint(last("a"));
  EXPECT_LE(best.integer("step"), newest.integer("step"));
  EXPECT_EQ(best.real("best_val_loss"), newest.real("best_val_loss"));
}

TEST_F(Resume, TiedWeightsAreStoredOnce) {
  run_training(config("a", {"stop_after=2"}));
  const CheckpointContent content = load_checkpoint(last("a"));
  EXPECT_TRUE(content.tensors.contains("parameters/token_embedding.weight"));
  EXPECT_TRUE(content.tensors.contains("optimizer/m/token_embedding.weight"));
  EXPECT_FALSE(content.tensors.contains("parameters/head.weight"));
  const LoadedModel loaded = load_model(content);
  EXPECT_EQ(loaded.model->parameters().parameters(), Trainer(config("b")).model().parameters().parameters());
}

}  // namespace
}  // namespace heed::train
