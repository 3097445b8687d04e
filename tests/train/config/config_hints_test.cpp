// What a name that heed does not have was probably meant to be.
#include <gtest/gtest.h>

#include "tests/train/config/config_samples.hpp"
#include "train/config/config_hints.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

TEST(ConfigHintsTest, AMisspeltKeyNamesTheNearest) {
  expect_contains(config_error(file_with("optim", "learing_rate = 1.0")),
                  {"tiny.toml:4:1: ", "unknown key learing_rate in [optim]: did you mean optim.learning_rate?"});
  expect_contains(config_error(kNgram, {"learing_rate=1.0"}),
                  {"argument \"learing_rate=1.0\"", "unknown key learing_rate: did you mean optim.learning_rate?"});
  expect_contains(config_error(kNgram, {"optim.learing_rate=1.0"}), {"in [optim]", "optim.learning_rate"});
}

TEST(ConfigHintsTest, EveryMisspeltKeyNamesTheNearest) {
  for (const KeySample& sample : key_samples()) {
    if (sample.table.empty()) continue;  // TheSeedBeforeTheTables
    const std::string doubled = sample.name.substr(0, 1) + sample.name;
    const std::string dashed = sample.name + "-";
    for (const std::string& wrong : {doubled, dashed}) {
      expect_contains(
          config_error(file_with(sample.table, wrong + " = " + sample.value)),
          {"tiny.toml:", "unknown key " + wrong + " in [" + sample.table + "]: did you mean " + sample.path() + "?"});
      expect_contains(config_error(kNgram, {sample.table + "." + wrong + "=" + sample.value}),
                      {"unknown key " + wrong, "did you mean " + sample.path() + "?"});
    }
  }
}

TEST(ConfigHintsTest, AKeyLikeNoOtherNamesNone) {
  expect_contains(config_error(file_with("train", "zzzzzzzzzz = 1")),
                  {"unknown key zzzzzzzzzz in [train], that table has ", "steps", "run_dir"});
  for (const char* name : {"zzzzzzzzzzzzzzz", "lx", "q"}) {
    const std::string error = config_error(kNgram, {std::string(name) + "=1"});
    expect_contains(error, {"unknown key " + std::string(name) + ", `heed config` lists all keys"});
    EXPECT_EQ(error.find("did you mean"), std::string::npos) << error;
  }
}

struct ForeignCase {
  const char* name;
  const char* hint;
};

TEST(ConfigHintsTest, KeysOfOtherProgramsNameHeedsKey) {
  const ForeignCase cases[] = {
      {"lr", "did you mean optim.learning_rate?"},
      {"n_layer", "did you mean model.num_layers?"},
      {"n_head", "did you mean model.num_heads?"},
      {"n_kv_head", "did you mean model.num_kv_heads?"},
      {"n_embd", "did you mean model.d_model?"},
      {"block_size", "did you mean model.seq_len?"},
      {"max_iters", "did you mean train.steps?"},
      {"warmup_iters", "did you mean optim.warmup_steps?"},
      {"lr_decay_iters", "until train.steps; train.stop_after"},
      {"min_lr", "did you mean optim.min_learning_rate?"},
      {"grad_clip", "did you mean optim.clip_norm?"},
      {"eval_iters", "did you mean train.eval_batches?"},
      {"gradient_accumulation_steps", "did you mean train.micro_batch_size? it is the number of sequences per forward"},
      {"max_steps", "did you mean train.steps?"},
      {"num_train_epochs", "not in epochs: set train.steps"},
      {"per_device_train_batch_size", "did you mean train.micro_batch_size? train.batch_size counts"},
      {"hidden_size", "did you mean model.d_model?"},
      {"num_hidden_layers", "did you mean model.num_layers?"},
      {"num_attention_heads", "did you mean model.num_heads?"},
      {"compile", "remove it"},
      {"dtype", "did you mean train.precision?"},
      {"out_dir", "did you mean train.run_dir?"},
      {"dataset", "did you mean data.path?"},
  };
  for (const auto& [name, hint] : cases) {
    const std::string wrong = name;
    expect_contains(config_error(kNgram, {wrong + "=1"}), {"unknown key " + wrong + ": ", hint});
    for (const char* table : {"model", "data", "optim", "train"}) {
      expect_contains(config_error(file_with(table, wrong + " = 1")),
                      {"tiny.toml:", "unknown key " + wrong + " in [" + table + "]: ", hint});
    }
  }
}

// Names that heed has, too, but elsewhere or not for every source.
TEST(ConfigHintsTest, SharedNamesNameTheirTable) {
  expect_contains(config_error(file_with("train", "learning_rate = 1")),
                  {"learning_rate in [train] belongs to [optim]"});
  expect_contains(config_error(file_with("train", "dropout = 0.1")), {"dropout in [train] belongs to [model]"});
  expect_contains(config_error(file_with("train", "weight_decay = 0.1")), {"belongs to [optim]"});
  expect_contains(config_error(file_with("model", "vocab_size = 9")), {"vocab_size in [model] belongs to [data]"});
  expect_contains(config_error("[data]\nsource = \"text\"\npath = \"a\"\nvocab_size = 9"),
                  {"key data.vocab_size has no effect here", "data.tokenizer = \"bpe\""});
  expect_contains(config_error(file_with("optim", "seed = 1")), {"belongs to [model], [data] or [train]"});
}

TEST(ConfigHintsTest, UnknownTables) {
  expect_contains(config_error(std::string(kNgram) + "[trian]\nsteps = 1\n"),
                  {"tiny.toml:3:2: ", "unknown table [trian]: did you mean [train]?"});
  expect_contains(config_error(std::string(kNgram) + "[trian]\n"), {"unknown table [trian]"});
  expect_contains(config_error(std::string(kNgram) + "[zzzzzzzz]\n"), {"[model], [data], [optim] or [train]"});
  expect_contains(config_error(kNgram, {"trian.steps=1"}), {"argument", "unknown table [trian]", "[train]"});
  expect_contains(config_error(kNgram, {"model.x.y=1"}), {"unknown key x.y in [model]"});
  expect_contains(config_error(kNgram, {".steps=1"}), {"unknown table"});
  expect_contains(config_error(kNgram, {"train.=1"}), {"unknown key"});
}

}  // namespace
}  // namespace heed::train
