// The configs in configs/: short trial runs by one key, resolved configs as a base for the next run, and notices.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/train/config/config_samples.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> shipped() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(HEED_CONFIGS)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  }
  EXPECT_GE(paths.size(), 7u);
  return paths;
}

TEST(ConfigShippedTest, AnyNumberOfStepsResolves) {
  for (const std::string& path : shipped()) {
    const Config whole = load_config(path);
    EXPECT_TRUE(whole.notices.empty()) << path;
    for (const int64_t steps : {1, 10, 1'000'000}) {
      const Config config = load_config(path, {"train.steps=" + std::to_string(steps)});
      EXPECT_EQ(config.train.steps, steps) << path;
      EXPECT_EQ(config.optim.warmup_steps, std::min(whole.optim.warmup_steps, steps)) << path;
      EXPECT_EQ(config.notices.size(), whole.optim.warmup_steps > steps ? 1u : 0u) << path;
    }
  }
}

TEST(ConfigShippedTest, AResolvedConfigIsABaseLikeTheOriginal) {
  for (const std::string& path : shipped()) {
    const std::string resolved = config_to_toml(load_config(path));
    for (const std::vector<std::string>& overrides :
         std::vector<std::vector<std::string>>{{},
                                               {"model.num_heads=4"},
                                               {"model.num_heads=2"},
                                               {"model.d_model=24", "model.num_heads=12"},
                                               {"train.steps=10"},
                                               {"model.dropout=0.1"}}) {
      const Config from_file = load_config(path, overrides);
      Config from_resolved = parse_config(resolved, path, overrides);
      for (const KeySpec& key : schema()) EXPECT_EQ(key.get(from_resolved), key.get(from_file)) << path << key.path();
    }
  }
}

TEST(ConfigShortRunTest, ValuesOfTheFileAreLoweredToStepsOfTheCommandLine) {
  const std::string file = kNgram + std::string("[optim]\nwarmup_steps = 50\n[train]\nsteps = 100\nstop_after = 60\n");
  const Config config = parse_config(file, "a.toml", {"train.steps=10"});
  EXPECT_EQ(config.optim.warmup_steps, 10);
  EXPECT_EQ(config.train.stop_after, 10);
  EXPECT_EQ(config.notices,
            (std::vector<std::string>{"optim.warmup_steps = 50 exceeds train.steps = 10 and is lowered to 10",
                                      "train.stop_after = 60 exceeds train.steps = 10 and is lowered to 10"}));
  expect_contains(config_to_toml(config), {"\nwarmup_steps = 10\n", "\nstop_after = 10\n"});
  expect_contains(describe_config(config),
                  {"\nnotice  optim.warmup_steps = 50 exceeds train.steps = 10 and is lowered to 10\n"});
  EXPECT_TRUE(parse_config(config_to_toml(config), "b.toml").notices.empty());
  EXPECT_EQ(parse_config(file, "a.toml", {"train.steps=60"}).notices.size(), 0u);
  EXPECT_EQ(parse_config(file, "a.toml", {"train.steps=50"}).notices.size(), 1u);
}

TEST(ConfigShortRunTest, AContradictionInOnePlaceIsAnError) {
  const std::vector<std::string> both_ways = {"warmup_steps = 50 is more than steps = 10", "set optim.warmup_steps",
                                              "train.stop_after=10"};
  expect_contains(config_error(kNgram + std::string("[optim]\nwarmup_steps = 50\n[train]\nsteps = 10\n")), both_ways);
  expect_contains(config_error(kNgram, {"train.steps=10", "optim.warmup_steps=50"}), both_ways);
  expect_contains(config_error(file_with("train", "steps = 10"), {"optim.warmup_steps=50"}), both_ways);
  expect_contains(config_error(kNgram, {"train.steps=10", "train.stop_after=50"}), {"stop_after = 50", "steps = 10"});
  expect_contains(config_error(file_with("train", "steps = 10\nstop_after = 50")), {"stop_after = 50", "steps = 10"});
}

TEST(ConfigResolvedTest, DefaultsThatFollowOtherKeysAreComments) {
  const std::string text = config_to_toml(parse_config(kNgram, "a.toml"));
  for (const char* line : {"# num_kv_heads = 4  (default: num_heads)", "# d_ff = 512  (default: 4 * d_model; swiglu",
                           "# alpha = [32.0, 8.0, 4.0]  (default: ", "# vocab_size = 32  (default: "}) {
    expect_contains(text, {"\n" + std::string(line)});
  }
  expect_contains(text, {"\nrun_dir = \"runs/a\"\n", "\nnum_heads = 4\n"});
  EXPECT_TRUE(text.starts_with("# "));
  const auto next = [&](std::vector<std::string> overrides) { return parse_config(text, "b.toml", overrides); };
  EXPECT_EQ(next({"model.num_heads=8"}).model.num_kv_heads, 8);
  EXPECT_EQ(next({"model.num_heads=2"}).model.num_kv_heads, 2);
  EXPECT_EQ(next({"model.d_model=64"}).model.d_ff, 256);
  EXPECT_EQ(next({"data.order=2"}).data.alpha, (std::vector<double>{32, 8}));
  EXPECT_FALSE(next({}).given.contains("model.num_kv_heads"));
  const Config given = parse_config(kNgram, "a.toml", {"num_kv_heads=4", "d_ff=512"});
  expect_contains(config_to_toml(given), {"\nnum_kv_heads = 4\n", "\nd_ff = 512\n"});
}

// As heed wrote it before final_eval, existing_run and comments.
TEST(ConfigResolvedTest, AConfigOfAnEarlierVersionReads) {
  const Config config = parse_config(R"([model]
num_layers = 2
d_model = 64
num_heads = 4
num_kv_heads = 4
d_ff = 256
seq_len = 32
norm_position = "pre"
norm_eps = 1e-05
activation = "gelu"
position = "learned"
dropout = 0.0
attention_dropout = 0.0
bias = true
tie_embeddings = true
init_std = 0.02
seed = 1

[data]
source = "ngram"
vocab_size = 32
order = 3
alpha = [32.0, 8.0, 4.0]
seed = 1

[optim]
optimizer = "adamw"
learning_rate = 0.01
min_learning_rate = 0.0001
schedule = "cosine"
warmup_steps = 50
weight_decay = 0.0
beta1 = 0.9
beta2 = 0.95
eps = 1e-08
clip_norm = 1.0

[train]
steps = 60
stop_after = 0
batch_size = 64
micro_batch_size = 0
seed = 1
device = "cpu"
precision = "f32"
recompute = false
detect_anomaly = false
shard_optimizer = false
comm_timeout_s = 600.0
eval_interval = 100
eval_batches = 8
log_interval = 100
run_dir = "old"
save_interval = 0
keep_checkpoints = 1
)",
                                     "config");
  EXPECT_EQ(config.train.final_eval, FinalEval::full);
  EXPECT_EQ(config.train.existing_run, ExistingRun::move);
  EXPECT_EQ(config.train.run_dir, "old");
  EXPECT_EQ(config.model.d_ff, 256);
}

TEST(ConfigNoticeTest, ASeedWithoutEffectIsSaid) {
  const std::vector<std::string> idle{
      "train.seed has no effect: dropout is 0; the seeds that change a run are model.seed and data.seed"};
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"train.seed=3"}).notices, idle);
  EXPECT_EQ(parse_config(file_with("train", "seed = 1"), "a.toml").notices, idle);
  for (const char* dropout : {"model.dropout=0.1", "model.attention_dropout=0.1"}) {
    EXPECT_TRUE(parse_config(kNgram, "a.toml", {"train.seed=3", dropout}).notices.empty());
  }
  // A resolved config does not repeat it for a seed that nobody gave.
  const Config config = parse_config(kNgram, "a.toml");
  EXPECT_TRUE(config.notices.empty());
  EXPECT_TRUE(parse_config(config_to_toml(config), "a.toml").notices.empty());
  const Config given = parse_config(kNgram, "a.toml", {"train.seed=3"});
  EXPECT_EQ(parse_config(config_to_toml(given), "a.toml").train.seed, 3u);
}

}  // namespace
}  // namespace heed::train
