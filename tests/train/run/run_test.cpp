// Whole runs: their files, and what happens when those cannot be written.
#include "train/run/run.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/core/check.hpp"
#include "tests/train/tiny.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::tiny_config;

class Run : public testing::Test {
 protected:
  std::string run_dir(const std::string& name) const { return (folder_.path() / name).string(); }
  Config config(const std::string& name, std::vector<std::string> more = {}, int steps = 6) const {
    more.push_back("train.run_dir=" + run_dir(name));
    more.push_back("steps=" + std::to_string(steps));
    return tiny_config(more);
  }
  std::vector<std::vector<std::string>> metrics(const std::string& name) const {
    std::vector<std::vector<std::string>> rows;
    std::istringstream text(read_file(folder_.path() / name / "metrics.csv"));
    for (std::string line; std::getline(text, line);) {
      rows.emplace_back();
      std::istringstream cells(line);
      for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
    }
    return rows;
  }
  // Without the columns of time.
  std::vector<std::vector<std::string>> timeless(const std::string& name) const {
    auto rows = metrics(name);
    for (auto& row : rows) row.resize(6);
    return rows;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Run, WritesItsFiles) {
  const Summary summary = run_training(config("a", {"eval_interval=4"}));
  const auto rows = metrics("a");
  ASSERT_EQ(rows.size(), 1u + 6);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"step", "tokens", "train_loss", "val_loss", "learning_rate", "grad_norm",
                                               "tokens_per_s", "seconds", "final_val_loss"}));
  for (size_t i = 1; i <= 6; ++i) {
    EXPECT_EQ(rows[i][0], std::to_string(i));
    EXPECT_EQ(rows[i][1], std::to_string(i * 12 * 8));
    EXPECT_EQ(rows[i][3].empty(), i != 4 && i != 6) << "an evaluation after step " << i;
  }
  const std::string json = read_file(folder_.path() / "a" / "summary.json");
  for (const char* key : {"written_by", "status", "reason", "val_targets", "bits_per_byte", "best_val_targets",
                          "config", "steps", "parameters", "train_loss", "val_loss", "best_val_loss", "test_loss",
                          "entropy", "excess", "waited_s_per_step", "tokens_per_s", "seconds", "peak_memory_bytes"}) {
    EXPECT_NE(json.find("\"" + std::string(key) + "\": "), std::string::npos) << key;
  }
  EXPECT_EQ(json.find("nan"), std::string::npos);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_GT(*summary.excess, 0);
  // The resolved config makes the same run again.
  run_training(load_config((folder_.path() / "a" / "config.toml").string(), {"train.run_dir=" + run_dir("b")}));
  EXPECT_EQ(timeless("a"), timeless("b"));
}

TEST_F(Run, SameSeedSameFileWithoutTheTimes) {
  const std::vector<std::string> dropout{"model.dropout=0.1", "model.attention_dropout=0.1"};
  run_training(config("a", dropout));
  run_training(config("b", dropout));
  EXPECT_EQ(timeless("a"), timeless("b"));
}

TEST_F(Run, EvaluationIntervalLeavesTheTrainingLossesAlone) {
  run_training(config("a", {"model.dropout=0.1", "eval_interval=3"}));
  run_training(config("b", {"model.dropout=0.1", "eval_interval=2"}));
  const auto a = metrics("a"), b = metrics("b");
  for (size_t i = 1; i <= 6; ++i) EXPECT_EQ(a[i][2], b[i][2]);
}

TEST_F(Run, OneStepTrainsOnce) {
  run_training(config("a", {}, 1));
  EXPECT_EQ(metrics("a").size(), 2u);
}

TEST_F(Run, AnEarlierRunIsMovedAside) {
  run_training(config("a"));
  const std::string first = read_file(folder_.path() / "a" / "metrics.csv");
  run_training(config("a", {"model.seed=2"}));
  run_training(config("a", {"model.seed=3"}));
  EXPECT_EQ(read_file(folder_.path() / "a.1" / "metrics.csv"), first);
  EXPECT_TRUE(fs::exists(folder_.path() / "a.2" / "summary.json"));
  EXPECT_TRUE(fs::exists(folder_.path() / "a" / "summary.json"));
}

TEST_F(Run, ASlashBehindTheFolderChangesNothing) {
  run_training(config("a/"));
  run_training(config("a/"));
  EXPECT_TRUE(fs::exists(folder_.path() / "a.1" / "summary.json"));
  EXPECT_TRUE(fs::exists(folder_.path() / "a" / "summary.json"));
}

// Of the two, the row comes first: no checkpoint knows an evaluation that metrics.csv does not.
TEST_F(Run, TheRowIsThereBeforeTheBestCheckpoint) {
  run_training(config("a", {"eval_interval=4", "stop_after=3"}));
  // A folder that heed did not make has the name of the temporary of best.h5.
  fs::create_directories(folder_.path() / "a" / "checkpoints" / (".best.h5.heed-" + std::to_string(::getpid())) / "x");
  EXPECT_THROW(run_training(config("a", {"eval_interval=4"}), {.resume = true}), CheckpointError);
  ASSERT_EQ(metrics("a").size(), 1u + 4);
  EXPECT_FALSE(metrics("a")[4][3].empty());
  // What cannot be kept as the best is not lost: the step is saved, and its evaluation is made again.
  fs::remove_all(folder_.path() / "a" / "checkpoints" / (".best.h5.heed-" + std::to_string(::getpid())));
  run_training(config("a", {"eval_interval=4"}), {.resume = true});
  run_training(config("whole", {"eval_interval=4"}));
  EXPECT_EQ(timeless("a"), timeless("whole"));
}

TEST_F(Run, WithoutValidationThereIsNoEvaluation) {
  std::ofstream(folder_.path() / "text.txt") << std::string(200, 'a') + std::string(200, 'b');
  for (const char* split : {"position", "lines"}) {
    const std::vector<std::string> text{"data.source=text", "data.path=" + run_dir("text.txt"),
                                        "tokenizer=byte",   std::string("split=") + split,
                                        "val_fraction=0",   "eval_interval=2"};
    const Summary summary = run_training(config(split, text));
    EXPECT_EQ(summary.steps, 6);
    EXPECT_FALSE(summary.val_loss || summary.best_val_loss);
    for (size_t i = 1; i <= 6; ++i) EXPECT_TRUE(metrics(split)[i][3].empty());
    EXPECT_NE(read_file(folder_.path() / split / "summary.json").find("\"val_loss\": null"), std::string::npos);
    EXPECT_TRUE(fs::exists(folder_.path() / split / "checkpoints" / "last.h5"));
    EXPECT_FALSE(fs::exists(folder_.path() / split / "checkpoints" / "best.h5"));
    EXPECT_EQ(run_training(config(split, text, 8), {.resume = true}).steps, 8);
  }
}

TEST_F(Run, AFolderThatCannotBeMadeStopsBeforeTheFirstStep) {
  std::ofstream(folder_.path() / "file") << "not a folder";
  try {
    run_training(config("file/run"));
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("train.run_dir"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(folder_.path().string()), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_file(folder_.path() / "file"), "not a folder");
}

}  // namespace
}  // namespace heed::train
