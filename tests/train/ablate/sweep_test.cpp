// What a sweep file means, and that each mistake in it ends in one line before any run.
#include "train/ablate/sweep.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("sweep_test." + std::to_string(::getpid()));
    fs::create_directories(folder_);
    write("base.toml", R"(
[model]
num_layers = 1
d_model = 16
num_heads = 2
seq_len = 8
[data]
source = "ngram"
vocab_size = 6
order = 2
[train]
steps = 5
batch_size = 4
)");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  Sweep load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    write("sweep.toml", "config = \"base.toml\"\n" + text);
    return load_sweep((folder_ / "sweep.toml").string(), overrides);
  }
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      load(text, overrides);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

constexpr const char* kHeads = "[grid]\nmodel.num_heads = [1, 2]\n";

#define EXPECT_ERROR(text, part) EXPECT_NE(error(text).find(part), std::string::npos) << error(text)

TEST_F(SweepTest, AGridIsEveryCombination) {
  const Sweep sweep = load("seeds = 4\n[grid]\nmodel.num_heads = [1, 2]\nmodel.norm_position = [\"pre\", \"post\"]\n");
  ASSERT_EQ(sweep.arms.size(), 4u);
  EXPECT_EQ(sweep.arms[1].name, "num_heads=1, norm_position=post");
  EXPECT_EQ(sweep.arms[1].config.model.num_heads, 1);
  EXPECT_EQ(sweep.arms[1].config.model.norm_position, nn::NormPosition::post);
  EXPECT_EQ(sweep.arms[2].name, "num_heads=2, norm_position=pre");
  EXPECT_EQ(sweep.arms[2].folder, "3-num_heads=2_norm_position=pre");
  EXPECT_EQ(sweep.num_runs(), 16);
  EXPECT_EQ(fs::path(sweep.folder).filename(), "sweep");
}

TEST_F(SweepTest, ArmsHaveNamesAndKeys) {
  const Sweep sweep = load(R"(
baseline = "wide"
[base]
train.steps = 7
[[arm]]
name = "narrow"
model.d_model = 8
[[arm]]
name = "wide"
model = {d_model = 32, num_heads = 4}
)");
  ASSERT_EQ(sweep.arms.size(), 2u);
  EXPECT_EQ(sweep.baseline, 1u);
  EXPECT_EQ(sweep.arms[0].config.model.d_model, 8);
  EXPECT_EQ(sweep.arms[1].config.model.num_heads, 4);
  EXPECT_EQ(sweep.arms[1].config.train.steps, 7);
}

TEST_F(SweepTest, TheCommandLineIsForAllArms) {
  const Sweep sweep = load("[base]\ntrain.steps = 7\n" + std::string(kHeads),
                           {"train.steps=3", "seeds=9", "run_dir=" + (folder_ / "out").string()});
  EXPECT_EQ(sweep.arms[0].config.train.steps, 3);
  EXPECT_EQ(sweep.seeds, 9);
  EXPECT_EQ(sweep.folder, fs::weakly_canonical(folder_ / "out"));
  EXPECT_NE(error(kHeads, {"model.num_heads=4"}).find("the sweep itself varies model.num_heads"), std::string::npos);
  EXPECT_NE(error(kHeads, {"seed=4"}).find("set seeds=NUMBER"), std::string::npos);
  EXPECT_NE(error(kHeads, {"seeds=0"}).find("seeds must be"), std::string::npos);
}

// Runs differ in their seed alone; the language of the source is the same.
TEST_F(SweepTest, SeedsArePaired) {
  const Sweep sweep = load("seeds = 3\n" + std::string(kHeads), {});
  EXPECT_EQ(sweep.seed(sweep.arms[0], 2), 3u);
  EXPECT_EQ(sweep.seed(sweep.arms[1], 2), 3u);
  const Config third = load_config((folder_ / "base.toml").string(), {"seed=3"});
  EXPECT_EQ(third.model.seed, 3u);
  EXPECT_EQ(third.data.seed, 3u);
  EXPECT_EQ(third.data.source_seed, 1u);
  EXPECT_ERROR("[base]\nmodel.seed = 1\ndata.seed = 1\n" + std::string(kHeads), "all its runs would be the same");
  EXPECT_EQ(load("[base]\nmodel.seed = 1\n" + std::string(kHeads)).notices.size(), 1u);
}

TEST_F(SweepTest, ShippedSweepsAreAccepted) {
  int sweeps = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(HEED_CONFIGS) / "sweeps")) {
    EXPECT_GE(load_sweep(entry.path().string(), {}).arms.size(), 2u) << entry.path();
    ++sweeps;
  }
  EXPECT_GE(sweeps, 2);
}

// A fixed data seed in one arm alone: its runs are not paired with those of the others.
TEST_F(SweepTest, UnpairedArmsAreNoted) {
  const Sweep sweep = load("[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\ndata.source_seed = 7\n");
  ASSERT_EQ(sweep.notices.size(), 1u);
  EXPECT_NE(sweep.notices[0].find("arm \"b\" has another data seed"), std::string::npos);
}

TEST_F(SweepTest, MistakesEndInOneLine) {
  EXPECT_ERROR("", "nothing to compare");
  EXPECT_ERROR("[grid]\n", "sweep.toml:2:2: [grid] is empty");
  EXPECT_ERROR("[grid]\nmodel.num_heads = []\n", "sweep.toml:3:7: model.num_heads has no values");
  EXPECT_ERROR("[grid]\nmodel.num_heads = 4\n", "must be a list");
  EXPECT_ERROR("[grid]\nmodel.num_head = [1]\n", "did you mean model.num_heads?");
  EXPECT_ERROR("[grid]\nmodle.num_heads = [1]\n", "did you mean [model]?");
  EXPECT_ERROR("[grid]\nmodel.num_heads = [1, 3]\n", "arm \"num_heads=3\"");
  EXPECT_ERROR("[grid]\nmodel.num_heads = [1, \"x\"]\n", "sweep.toml:3:7: arm \"num_heads=x\": key model.num_heads");
  EXPECT_ERROR("[base]\ntrain.steps = 0\n" + std::string(kHeads),
               "sweep.toml:3:7: arm \"num_heads=1\": key train.steps");
  EXPECT_ERROR("[grid]\nmodel.num_heads = [1, 1]\n", "two arms");
  EXPECT_ERROR("[grid]\nseed = [1, 2]\n", "set seeds = NUMBER");
  EXPECT_ERROR("[grid]\ntrain.run_dir = [\"a\"]\n", "chooses the folder");
  EXPECT_ERROR("seeds = 0\n" + std::string(kHeads), "seeds is the integer 0, it must be");
  EXPECT_ERROR("seed = 5\n" + std::string(kHeads), "unknown key \"seed\"");
  EXPECT_ERROR("[model]\nnum_heads = 1\n", "belongs into [base]");
  EXPECT_ERROR("baseline = \"x\"\n" + std::string(kHeads), "it must be \"num_heads=1\" or \"num_heads=2\"");
  EXPECT_ERROR("[[arm]]\nmodel.num_heads = 1\n", "the arm has no name");
  EXPECT_ERROR("[arm]\nmodel.num_heads = 1\n", "write [[arm]] above each arm");
  EXPECT_ERROR("[grid]\nmodel.num_heads = [2020-01-01]\n", "sweep.toml:3:7: no key has a date or a time");
  EXPECT_ERROR("[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n", "are the same config");
  EXPECT_ERROR(std::string(kHeads) + "[[arm]]\nname = \"a\"\n", "not both");
  EXPECT_ERROR("[grid\n", "sweep.toml:2:");
  write("sweep.toml", kHeads);
  EXPECT_THROW(load_sweep((folder_ / "sweep.toml").string(), {}), ConfigError);
  EXPECT_THROW(load_sweep((folder_ / "none.toml").string(), {}), ConfigError);
}

}  // namespace
}  // namespace heed::train
