// Rules between keys: what does not fit together, and what would have no effect, is refused before anything is made.
#include <gtest/gtest.h>

#include "tests/train/config/config_samples.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

TEST(ConfigRulesTest, HeadsMustDivide) {
  expect_contains(config_error(file_with("model", "d_model = 10\nnum_heads = 3")),
                  {"tiny.toml:5:1: ", "d_model = 10", "num_heads = 3"});
  expect_contains(config_error(file_with("model", "d_model = 28\nnum_heads = 7\nnum_kv_heads = 4")),
                  {"tiny.toml:6:1: ", "num_heads = 7", "num_kv_heads = 4"});
  expect_contains(config_error(kNgram, {"d_model=28", "num_heads=7", "num_kv_heads=8"}),
                  {"num_heads = 7", "num_kv_heads = 8"});
  expect_contains(config_error(kNgram, {"num_kv_heads=0"}), {"key model.num_kv_heads is the integer 0"});
  expect_contains(config_error(kNgram, {"num_kv_heads=-1"}), {"key model.num_kv_heads is the integer -1"});
  expect_contains(config_error(kNgram, {"num_heads=256", "d_model=128"}), {"d_model = 128", "num_heads = 256"});
}

TEST(ConfigRulesTest, RopeRotatesAnEvenNumberOfColumns) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"d_model=24", "num_heads=2", "position=rope"});
    return config_error(kNgram, arguments);
  };
  expect_contains(error({"rope_fraction=0.25"}), {"rope_fraction = 0.25", "head size 12", "3 columns", "even"});
  expect_contains(error({"rope_fraction=0.4"}), {"4.8", "columns"});
  expect_contains(error({"rope_fraction=0.001"}), {"columns"});
  expect_contains(error({"rope_scaling=linear"}), {"key model.rope_scaling_factor is missing"});
  expect_contains(error({"rope_scaling_factor=2"}), {"key model.rope_scaling_factor has no effect here"});
  expect_contains(config_error(kNgram, {"rope_base=500"}), {"key model.rope_base has no effect here", "\"rope\""});
  const std::vector<std::string> fine = {"d_model=24", "num_heads=2", "position=rope", "rope_fraction=0.333"};
  EXPECT_EQ(parse_config(kNgram, "a.toml", fine).model.rope_columns(), 4);
}

TEST(ConfigRulesTest, GroupedHeadsThatDivideAreFine) {
  const nn::GptConfig model = parse_config(kNgram, "a.toml", {"d_model=24", "num_heads=6", "num_kv_heads=2"}).model;
  EXPECT_EQ(model.head_size(), 4);
  EXPECT_EQ(model.d_model * model.d_model + 2 * model.d_model * model.kv_heads() * model.head_size(), 960);
}

TEST(ConfigRulesTest, EveryPairOfHeadCountsIsJudgedByDivision) {
  for (int64_t heads = 1; heads <= 13; ++heads) {
    for (int64_t kv_heads = 1; kv_heads <= 13; ++kv_heads) {
      const std::vector<std::string> arguments = {"d_model=24", "num_heads=" + std::to_string(heads),
                                                  "num_kv_heads=" + std::to_string(kv_heads)};
      if (24 % heads == 0 && heads % kv_heads == 0) {
        EXPECT_EQ(parse_config(kNgram, "a.toml", arguments).model.num_kv_heads, kv_heads);
      } else {
        expect_contains(config_error(kNgram, arguments), {"not a multiple"});
      }
    }
  }
}

TEST(ConfigRulesTest, TheBatchIsSplitWithoutRest) {
  for (int64_t micro = 0; micro <= 13; ++micro) {
    const std::vector<std::string> arguments = {"batch_size=12", "micro_batch_size=" + std::to_string(micro)};
    if (micro == 0 || 12 % micro == 0) {
      EXPECT_EQ(parse_config(kNgram, "a.toml", arguments).train.rows_per_micro_batch(), micro == 0 ? 12 : micro);
    } else {
      expect_contains(config_error(kNgram, arguments),
                      {"batch_size = 12", "ranks (1)", "micro_batch_size = " + std::to_string(micro)});
    }
  }
}

TEST(ConfigRulesTest, TF32IsForProductsOfF32OnCuda) {
  EXPECT_TRUE(parse_config(kNgram, "a.toml", {"tf32=true", "device=cuda"}).train.tf32);
  expect_contains(config_error(kNgram, {"tf32=true", "precision=bf16"}), {"tf32 = true", "precision = \"bf16\""});
  expect_contains(config_error(kNgram, {"log_layers=true", "shard_optimizer=true"}),
                  {"log_layers = true", "shard_optimizer = true"});
  expect_contains(config_error(kNgram, {"tf32=true", "device=cpu"}), {"key train.tf32 has no effect", "train.device"});
  expect_contains(config_error(kNgram, {"cuda_graph=false", "device=cpu"}), {"key train.cuda_graph has no effect"});
}

TEST(ConfigRulesTest, TheSourceIsRequired) {
  expect_contains(config_error(""),
                  {"tiny.toml: ", "key data.source is missing", "\"ngram\", \"skip\", ", "\"text\" or \"tokens\""});
  expect_contains(config_error("[data]\nsource = \"skip\""), {"tiny.toml:2:1: ", "key data.offsets is missing"});
  EXPECT_NO_THROW(parse_config("", "a.toml", {"source=ngram"}));
}

TEST(ConfigRulesTest, WhatHasNoEffectIsRefused) {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& key,
                          const std::string& condition) {
    expect_contains(config_error(kNgram, arguments), {"key " + key + " has no effect", condition});
  };
  refused({"attention_only=true", "d_ff=5"}, "model.d_ff", "only for model.attention_only = false: remove it");
  refused({"offsets=[1]"}, "data.offsets", "data.source = \"skip\"");
  refused({"source=skip", "offsets=[1]", "order=3"}, "data.order", "data.source = \"ngram\"");
  for (const char* key : {"beta1=0.9", "beta2=0.95", "eps=1e-8"}) {
    const std::string name(key, std::string(key).find('='));
    refused({"optimizer=sgd", key}, "optim." + name, "optim.optimizer = \"adamw\" or \"muon\"");
  }
  refused({"momentum=0.9"}, "optim.momentum", "optim.optimizer = \"sgd\" or \"muon\"");
  refused({"optimizer=adamw", "momentum=0"}, "optim.momentum", "optim.optimizer = \"sgd\" or \"muon\"");
  for (const char* key : {"muon_scale=original", "adamw_learning_rate=0.1"}) {
    const std::string name(key, std::string(key).find('='));
    refused({"optimizer=sgd", key}, "optim." + name, "optim.optimizer = \"muon\"");
  }
  refused({"schedule=constant", "min_learning_rate=0"}, "optim.min_learning_rate",
          "optim.schedule = \"cosine\", \"linear\" or \"wsd\"");
  for (const char* key : {"decay_steps=5", "decay=linear"}) {
    const std::string name(key, std::string(key).find('='));
    refused({"schedule=cosine", key}, "optim." + name, "optim.schedule = \"wsd\"");
  }
  expect_contains(config_error(file_with("optim", "optimizer = \"sgd\"\nbeta1 = 0.9")), {"tiny.toml:5:1: "});
}

TEST(ConfigRulesTest, PartnersExist) {
  for (const KeySpec& key : schema()) {
    for (const KeySpec::Condition& condition : key.conditions) {
      const std::size_t dot = condition.key.find('.');
      const KeySpec* partner = find_key(condition.key.substr(0, dot), condition.key.substr(dot + 1));
      ASSERT_NE(partner, nullptr) << key.path();
      for (const std::string& value : condition.values) {
        EXPECT_NE(partner->allowed.find(value), std::string::npos) << key.path() << " " << value;
      }
    }
  }
}

TEST(ConfigRulesTest, AChoiceOnTheCommandLineOverridesWhatTheFileSaysBesideIt) {
  const std::string file = file_with("optim", "min_learning_rate = 1e-5\nbeta1 = 0.8");
  EXPECT_NO_THROW(parse_config(file, "a.toml", {"schedule=constant", "optimizer=sgd"}));
  const Config config = parse_config(file, "a.toml", {"schedule=constant"});
  EXPECT_NO_THROW(parse_config(config_to_toml(config), "b.toml"));
  expect_contains(config_error(file + "schedule = \"constant\"\n"), {"min_learning_rate has no effect"});
}

TEST(ConfigRulesTest, DefaultsOfMuon) {
  const OptimConfig muon = parse_config(kNgram, "a.toml", {"optimizer=muon", "learning_rate=0.003"}).optim;
  EXPECT_EQ(muon.momentum, 0.95);
  EXPECT_EQ(muon.adamw_learning_rate, 0.003);
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"optimizer=muon", "momentum=0"}).optim.momentum, 0);
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"optimizer=sgd"}).optim.momentum, 0);
}

TEST(ConfigRulesTest, MupIsForAdamWAndMuon) {
  for (const char* optimizer : {"optimizer=adamw", "optimizer=muon"}) {
    EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"mup_base_width=64", optimizer}));
  }
  expect_contains(config_error(kNgram, {"mup_base_width=64", "optimizer=sgd"}),
                  {"mup_base_width = 64", "\"sgd\"", "optim.optimizer = \"adamw\" or \"muon\""});
}

TEST(ConfigRulesTest, ATiedHeadHasNoLearningRateOfItsOwn) {
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"head_lr_scale=2", "tie_embeddings=false"}));
  expect_contains(config_error(kNgram, {"head_lr_scale=2"}),
                  {"argument \"head_lr_scale=2\": ", "head_lr_scale = 2", "optim.embedding_lr_scale"});
}

TEST(ConfigRulesTest, TheDecayIsAFifthOfTheRun) {
  const auto decay_steps = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"schedule=wsd"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return parse_config(kNgram, "a.toml", arguments).optim.decay_steps;
  };
  EXPECT_EQ(decay_steps({"steps=1000"}), 200);
  EXPECT_EQ(decay_steps({"steps=1000", "warmup_steps=900"}), 100);
  EXPECT_EQ(decay_steps({"steps=3"}), 1);
  EXPECT_EQ(decay_steps({"steps=3", "warmup_steps=3"}), 0);
  EXPECT_EQ(decay_steps({"steps=100", "warmup_steps=40", "decay_steps=60"}), 60);
  expect_contains(config_error(kNgram, {"schedule=wsd", "steps=100", "warmup_steps=40", "decay_steps=61"}),
                  {"warmup_steps = 40", "decay_steps = 61", "steps = 100"});
}

TEST(ConfigRulesTest, AShorterRunLowersTheDecayOfTheFile) {
  const std::string file = file_with("optim", "schedule = \"wsd\"\nwarmup_steps = 30\ndecay_steps = 200");
  const Config config = parse_config(file + "[train]\nsteps = 1000\n", "a.toml", {"steps=100"});
  EXPECT_EQ(config.optim.decay_steps, 70);
  ASSERT_EQ(config.notices.size(), 1u);
  expect_contains(config.notices[0], {"optim.decay_steps = 200", "train.steps = 100", "lowered to 70"});
  expect_contains(config_error(file + "[train]\nsteps = 100\n"), {"tiny.toml", "decay_steps = 200"});
}

TEST(ConfigRulesTest, Texts) {
  const std::string file = "[data]\nsource = \"text\"\n";
  expect_contains(config_error(file), {"data.path is missing"});
  expect_contains(config_error(file, {"path=a.txt", "vocab_size=100"}), {"vocab_size has no effect", "bpe"});
  EXPECT_EQ(parse_config(file, "a.toml", {"path=a.txt", "tokenizer=bpe"}).data.vocab_size, 512);
  expect_contains(config_error(file, {"path=a.txt", "val_lines=5"}), {"val_lines has no effect", "lines"});
  expect_contains(config_error(file, {"path=a.txt", "val_fraction=0.6", "test_fraction=0.4"}), {"0.6", "0.4"});
  expect_contains(config_error(file, {"path=a.txt", "alpha=[1, 2]"}), {"alpha has no effect"});
}

TEST(ConfigRulesTest, Alpha) {
  expect_contains(config_error(kNgram, {"alpha=[32, 8]"}), {"alpha has 2", "order = 3", "needs 3"});
  expect_contains(config_error(kNgram, {"alpha=[]"}), {"alpha has 0", "needs 3"});
  expect_contains(config_error(file_with("data", "alpha = [1, 2, 3]\norder = 2")), {"tiny.toml:4:1: ", "alpha has 3"});
  expect_contains(config_error(kNgram, {"source=skip", "offsets=[1, 3]", "alpha=[1, 2]"}),
                  {"alpha has 2", "offsets = [1, 3]", "needs 3"});
}

TEST(ConfigRulesTest, Offsets) {
  expect_contains(config_error(kNgram, {"source=skip", "offsets=[]"}), {"offsets is empty"});
  expect_contains(config_error(kNgram, {"source=skip", "offsets=[3, 1, 3]"}), {"[3, 1, 3]", "differ"});
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"source=skip", "offsets=[3, 1]"}).data.offsets,
            (std::vector<int64_t>{3, 1}));
}

TEST(ConfigRulesTest, SourcesOfAbsurdSize) {
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"vocab_size=32", "order=5"}));
  expect_contains(config_error(kNgram, {"vocab_size=33", "order=5"}), {"vocab_size = 33", "order = 5", "33^4 states"});
  expect_contains(config_error(kNgram, {"vocab_size=65536", "order=21"}), {"65536^20 states"});
  expect_contains(config_error(kNgram, {"vocab_size=8192", "order=2"}), {"8192^2 probabilities"});
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"vocab_size=65536", "order=1"}));
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"source=skip", "vocab_size=2", "offsets=[20]"}));
  expect_contains(config_error(kNgram, {"source=skip", "vocab_size=3", "offsets=[1, 20]"}),
                  {"vocab_size = 3", "offsets = [1, 20]", "3^20 states"});
}

TEST(ConfigRulesTest, AUniformPrefixAllowsFarOffsets) {
  const std::vector<std::string> far = {"source=skip", "vocab_size=8", "offsets=[2, 7, 15, 31]", "prefix=uniform"};
  EXPECT_EQ(parse_config(kNgram, "a.toml", far).data.alpha, (std::vector<double>{32, 8, 4, 4, 4}));
  expect_contains(config_error(kNgram, {far[0], far[1], far[2]}), {"8^31 states", "data.prefix = \"uniform\""});
  expect_contains(config_error(kNgram, {far[0], far[1], far[2], far[3], "seq_len=30"}),
                  {"offsets = [2, 7, 15, 31]", "looks back 31 tokens", "seq_len = 30"});
  expect_contains(config_error(kNgram, {"source=skip", "vocab_size=64", "offsets=[1, 2, 3, 4]", "prefix=uniform"}),
                  {"64^5 probabilities"});
}

TEST(ConfigRulesTest, SourcesThatNeedAnotherShape) {
  const auto error = [](std::vector<std::string> overrides) { return config_error(kNgram, overrides); };
  expect_contains(error({"source=modular_addition"}), {"seq_len = ", "\"modular_addition\"", "set model.seq_len = 3"});
  expect_contains(error({"source=addition", "digits=4"}), {"\"addition\"", "set model.seq_len = 14"});
  expect_contains(error({"source=addition", "seq_len=11", "val_fraction=0.0001"}), {"val_fraction = 0.0001", "0.001"});
  expect_contains(error({"source=repeat", "min_period=20"}), {"min_period = 20 is more than max_period = 16"});
  expect_contains(error({"source=markov_in_context", "alpha=[1, 2]"}), {"alpha has 2", "must have 1"});
  expect_contains(error({"source=markov_in_context", "vocab_size=1025"}), {"vocab_size = 1025", "at most 1024"});
  expect_contains(error({"source=hidden_markov", "alpha=[1]"}), {"alpha has 1", "must have 2"});
  expect_contains(error({"source=hidden_markov", "vocab_size=65536", "num_states=64"}),
                  {"vocab_size = 65536", "num_states = 64", "1048576 emission"});
  for (const char* key : {"vocab_size=5", "alpha=[1]", "source_seed=2", "val_fraction=0.1", "modulus=7"}) {
    expect_contains(error({"source=dyck", key}), {"has no effect here", "remove it"});
  }
}

TEST(ConfigRulesTest, TheModelHasTheVocabularyOfTheSource) {
  const auto vocab_size = [](std::vector<std::string> overrides) {
    return parse_config(kNgram, "a.toml", overrides).model.vocab_size;
  };
  EXPECT_EQ(vocab_size({"source=dyck", "num_brackets=3"}), 6);
  EXPECT_EQ(vocab_size({"source=modular_addition", "modulus=53", "seq_len=3"}), 54);
  EXPECT_EQ(vocab_size({"source=addition", "seq_len=11"}), 12);
  EXPECT_EQ(vocab_size({"source=repeat", "vocab_size=20"}), 20);
}

TEST(ConfigRulesTest, Schedule) {
  expect_contains(config_error(file_with("optim", "min_learning_rate = 0.1\nlearning_rate = 0.01")),
                  {"tiny.toml:5:1: ", "min_learning_rate = 0.1", "learning_rate = 0.01"});
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"min_learning_rate=0.01", "learning_rate=0.01"}));
  expect_contains(config_error(kNgram, {"warmup_steps=21", "steps=20"}), {"warmup_steps = 21", "steps = 20"});
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"warmup_steps=20", "steps=20"}));
}

TEST(ConfigRulesTest, BatchesOfAbsurdSize) {
  expect_contains(config_error(kNgram, {"batch_size=4097", "seq_len=1048576"}), {"4097", "1048576", "2^32"});
  expect_contains(config_error(kNgram, {"batch_size=4096", "seq_len=1048576", "num_heads=65536", "d_model=65536"}),
                  {"2^62", "num_heads = 65536"});
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"batch_size=1", "seq_len=1048576"}));
}

// A change of either key can mend a rule that two keys break; the one on the command line is named.
TEST(ConfigRulesTest, TheCommandLineIsNamedBeforeTheFile) {
  expect_contains(config_error(file_with("model", "num_heads = 8"), {"d_model=100"}), {"argument \"d_model=100\": "});
}

// What the file says beside its own choice falls with the choice, also through a second key, and nothing of it is left.
TEST(ConfigRulesTest, AnOverriddenChoiceLeavesAConfigThatReadsBack) {
  const std::string lines =
      "[data]\nsource = \"text\"\npath = \"a.txt\"\ntokenizer = \"bpe\"\nvocab_size = 300\nsplit = \"lines\"\n"
      "val_lines = 10\ntest_lines = 5\n";
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{"source=ngram"},
                                             {"source=tokens"},
                                             {"split=position"},
                                             {"tokenizer=char"},
                                             {"source=skip", "offsets=[1]"}}) {
    const Config config = parse_config(lines, "a.toml", overrides);
    EXPECT_NO_THROW(parse_config(config_to_toml(config), "b.toml")) << config_to_toml(config);
  }
  EXPECT_EQ(parse_config(lines, "a.toml", {"split=position"}).data.val_lines, 0);
  expect_contains(config_error(lines, {"val_fraction=0.2"}), {"val_fraction", "val_lines"});
}

}  // namespace
}  // namespace heed::train
