// layers.csv of small runs: it agrees with metrics.csv and the checkpoint, resumes, and does not disturb the training.
#include "train/run/layers_file.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/run/metrics.hpp"
#include "train/run/run.hpp"

namespace heed::train {
namespace {

using test::read_file;

struct Row {
  int64_t step = 0;
  std::string layer;
  double weight = 0, grad = 0, update = 0;
};

class Layers : public testing::Test {
 protected:
  Config config(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"log_interval=2", "final_eval=subset", "run_dir=" + (folder_.path() / name).string()});
    return test::tiny_config(more);
  }
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name / "layers.csv"; }

  std::vector<Row> rows(const std::string& name) const {
    std::istringstream text(read_file(file(name)));
    std::string line, cell;
    std::getline(text, line);
    EXPECT_EQ(line + "\n", kLayersHeader);
    std::vector<Row> rows;
    while (std::getline(text, line)) {
      std::istringstream cells(line);
      std::vector<std::string> parts;
      while (std::getline(cells, cell, ',')) parts.push_back(cell);
      rows.push_back({std::stoll(parts.at(0)), parts.at(1), std::stod(parts.at(2)), std::stod(parts.at(3)),
                      std::stod(parts.at(4))});
    }
    return rows;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Layers, AgreeWithTheMetricsAndTheWeights) {
  for (const std::string precision : {"f32", "bf16"}) {
    run_training(config(precision, {"log_layers=true", "steps=6", "precision=" + precision}));
    const std::vector<Row> found = rows(precision);
    const std::vector<MetricsRow> metrics = read_metrics(folder_.path() / precision / "metrics.csv");
    const std::vector<std::string> layers = {"embedding", "block 0", "block 1", "output head"};
    ASSERT_EQ(found.size(), 3 * layers.size());
    double weights = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].layer, layers[i % layers.size()]);
      EXPECT_EQ(found[i].step, static_cast<int64_t>(2 * (i / layers.size() + 1)));
      EXPECT_GT(found[i].update, 0);
      EXPECT_LT(found[i].update, found[i].weight);
      if (found[i].step == 6) weights += found[i].weight * found[i].weight;
    }
    for (size_t step = 2; step <= 6; step += 2) {
      double squares = 0;
      for (const Row& row : found) {
        if (row.step == static_cast<int64_t>(step)) squares += row.grad * row.grad;
      }
      EXPECT_NEAR(std::sqrt(squares) / metrics[step - 1].grad_norm, 1, test::kF32) << precision << ", step " << step;
    }
    const CheckpointContent saved = load_checkpoint(folder_.path() / precision / "checkpoints" / "last.h5");
    double expected = 0;
    for (const auto& [name, tensor] : saved.tensors) {
      if (!name.starts_with("parameters/")) continue;
      for (const double value : tensor.values()) expected += value * value;
    }
    EXPECT_NEAR(weights / expected, 1, test::kF32);
  }
}

TEST_F(Layers, ResumeAndDoNotDisturbTheRun) {
  run_training(config("whole", {"log_layers=true", "steps=8"}));
  run_training(config("parts", {"log_layers=true", "steps=8", "stop_after=5"}));
  run_training(config("parts", {"log_layers=true", "steps=8"}), {.resume = true});
  EXPECT_EQ(read_file(file("whole")), read_file(file("parts")));
  // Rows after the checkpoint, of a run that was killed, are dropped, also an incomplete last one.
  run_training(config("killed", {"log_layers=true", "steps=8", "stop_after=4"}));
  std::ofstream(file("killed"), std::ios::app) << "6,embedding,1,2,3\n6,block 0,1";
  run_training(config("killed", {"log_layers=true", "steps=8"}), {.resume = true});
  EXPECT_EQ(read_file(file("whole")), read_file(file("killed")));
  run_training(config("without", {"steps=8"}));
  EXPECT_FALSE(std::filesystem::exists(file("without")));
  const auto weights = [&](const std::string& name) {
    return load_checkpoint(folder_.path() / name / "checkpoints" / "last.h5")
        .tensors.at("parameters/token_embedding.weight")
        .values();
  };
  EXPECT_EQ(weights("whole"), weights("without"));
}

TEST_F(Layers, AnotherFileIsNotReplaced) {
  run_training(config("run", {"log_layers=true", "steps=4", "stop_after=2"}));
  std::ofstream(file("run")) << "mine";
  EXPECT_THROW(run_training(config("run", {"log_layers=true", "steps=4"}), {.resume = true}), CheckpointError);
  EXPECT_EQ(read_file(file("run")), "mine");
}

}  // namespace
}  // namespace heed::train
