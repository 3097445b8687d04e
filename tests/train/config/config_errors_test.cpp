// Strictness: what is misspelt, misplaced, of the wrong type, out of range or not TOML is refused, with the place, the
// key, what was found and what is allowed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/train/config/config_samples.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

TEST(ConfigErrorsTest, AKeyInTheWrongTableNamesTheRightOne) {
  for (const KeySample& sample : key_samples()) {
    if (sample.table.empty()) continue;
    const std::string home = sample.name == "seed" ? "[model], [data] or [train]" : "[" + sample.table + "]";
    for (const char* table : {"model", "data", "optim", "train"}) {
      if (find_key(table, sample.name) == nullptr) {
        expect_contains(config_error(file_with(table, sample.name + " = " + sample.value)),
                        {"key " + sample.name + " in [" + table + "] belongs to " + home});
      }
    }
    if (sample.name == "seed") continue;  // it also stands before the tables
    expect_contains(config_error(sample.name + " = " + sample.value + "\n" + kNgram),
                    {"tiny.toml:1:1: ", "belongs to " + home});
  }
}

TEST(ConfigErrorsTest, TheSeedBeforeTheTables) {
  expect_contains(config_error("seed = \"x\"\n" + std::string(kNgram)),
                  {"tiny.toml:1:1: key seed is the string \"x\""});
  expect_contains(config_error("seed = -1\n" + std::string(kNgram)), {"an integer from 0 to 4294967295"});
  expect_contains(config_error("sseed = 1\n" + std::string(kNgram)), {"unknown key sseed: did you mean seed?"});
  expect_contains(config_error(kNgram, {"seed=x"}), {"argument \"seed=x\": key seed has the value \"x\""});
}

TEST(ConfigErrorsTest, ATableIsATable) {
  expect_contains(config_error("model = 3\n" + std::string(kNgram)),
                  {"tiny.toml:1:1: [model] must be a table, not the integer 3"});
  expect_contains(config_error("[[data]]\nsource = \"ngram\""), {"[data] must be a table"});
  expect_contains(config_error(file_with("optim", "[optim.eps]\nx = 1")), {"key optim.eps is a table"});
  expect_contains(config_error(file_with("optim", "[optim.sub]")), {"unknown key sub in [optim]"});
}

TEST(ConfigErrorsTest, GivenTwice) {
  expect_contains(config_error(file_with("train", "steps = 1\nsteps = 2")), {"tiny.toml:5:", "steps"});
  expect_contains(config_error(file_with("train", "steps = 1\nsteps = 1")), {"tiny.toml:5:", "steps"});
  expect_contains(config_error(file_with("train", "steps = 1\n\"steps\" = 2")), {"tiny.toml:5:", "steps"});
  expect_contains(config_error(file_with("train", "steps = 1\n[train]\nseed = 2")), {"tiny.toml:5:", "train"});
  expect_contains(config_error(kNgram, {"steps=1", "train.steps=2"}), {"train.steps=2", "already", "steps=1"});
}

// Every key with every type of TOML: only its own type (and an integer for a number) may pass.
TEST(ConfigErrorsTest, EveryKeyRefusesEveryOtherType) {
  const std::vector<std::pair<std::string, std::string>> types = {
      {"boolean", "true"},      {"integer", "3"},  {"number", "0.75"},
      {"string", "\"1e-3\""},   {"list", "[2]"},   {"list", "[0.5]"},
      {"list", "[\"a\"]"},      {"list", "[[1]]"}, {"a table", "{steps = 1}"},
      {"a date", "2020-01-01"}, {"number", "nan"}, {"number", "inf"}};
  for (const KeySample& sample : key_samples()) {
    if (sample.table.empty()) continue;  // TheSeedBeforeTheTables
    const KeySpec& key = *find_key(sample.table, sample.name);
    const bool takes_number = key.allowed.starts_with("a number");
    for (const auto& [type, value] : types) {
      const bool is_allowed =
          (type == "boolean" && key.allowed == "true or false") ||
          (type == "integer" && (key.allowed.starts_with("an integer") || takes_number)) ||
          (value == "0.75" && takes_number) ||
          (type == "string" && (sample.name == "run_dir" || sample.name == "path" || sample.name == "init_from" ||
                                sample.name == "tokenizer_file" || sample.name == "document_separator")) ||
          (type == "list" && (sample.name == "alpha" || sample.name == "offsets"));
      if (!is_allowed) {
        const std::string line = sample.name == "source" ? "" : sample.name + " = " + value;
        const std::string text = line.empty() ? "[data]\nsource = " + value : file_with(sample.table, line);
        expect_contains(config_error(text), {"tiny.toml:", "key " + sample.path() + " is ", type, key.allowed});
      }
    }
  }
}

TEST(ConfigErrorsTest, ElementsOfListsHaveTypes) {
  for (const char* value : {"[2.5]", "[true]", "[\"1\"]", "[[1]]", "[0]", "[-1]", "[1, 2.0]", "3", "[1, nan]"}) {
    expect_contains(config_error(kNgram, {std::string("offsets=") + value}),
                    {"key data.offsets is ", "an integer from 1"});
  }
  for (const char* value : {"[true]", "[\"1\"]", "[1, nan]", "[0]", "[-1.5]", "[inf]", "4.0"}) {
    expect_contains(config_error(kNgram, {std::string("alpha=") + value}), {"key data.alpha is ", "a number from"});
  }
}

TEST(ConfigErrorsTest, WrongTypesSayWhatWasFound) {
  expect_contains(config_error(file_with("optim", "learning_rate = \"1e-3\"")),
                  {"tiny.toml:4:1: key optim.learning_rate is the string \"1e-3\"", "must be a number from"});
  expect_contains(config_error(file_with("model", "num_layers = 2.5")),
                  {"tiny.toml:4:1: key model.num_layers is the number 2.5", "must be an integer from 1"});
  expect_contains(config_error(file_with("model", "num_layers = 2.0")), {"the number 2.0", "must be an integer"});
  expect_contains(config_error(file_with("model", "num_layers = true")), {"the boolean true", "must be an integer"});
  expect_contains(config_error(file_with("model", "bias = 1")), {"the integer 1", "must be true or false"});
  expect_contains(config_error(file_with("model", "norm_position = \"mid\"")),
                  {"the string \"mid\"", "must be \"pre\", \"post\" or \"sandwich\""});
  expect_contains(config_error(file_with("model", "norm_position = \"Pre\"")),
                  {"must be \"pre\", \"post\" or \"sandwich\""});
  expect_contains(config_error(file_with("model", "position = \"\"")),
                  {"\"learned\", \"sinusoidal\", \"rope\", \"alibi\" or \"none\""});
}

TEST(ConfigErrorsTest, BrokenTables) {
  for (const char* header : {"[.a]", "[[[model]]]", "[[=", "[", "[]", "[model", "[model]]", "[mo del]", "[model.]"}) {
    expect_contains(config_error(std::string(kNgram) + header + "\n"), {"tiny.toml:3:"});
  }
}

TEST(ConfigErrorsTest, LettersThatAreNotAsciiOnlyStandInStringsAndComments) {
  expect_contains(config_error(std::string(kNgram) + "# ü\n[train]\nrun_dir = é"),
                  {"tiny.toml:5:", "key train.run_dir must be a string"});
  for (const char* text :
       {"é = 1", "[é]", "x = [é]", "x = 'é' é", "x = 1'é'", "x = 1 # é\né", "\u00a0x = 1", "x =\u30001", "x = \"\\é\"",
        "x = \"\"\"\\é\"\"\"", "x = 1é=\"", "\xff", "# \xc3\n", "x = '\xe9'"}) {
    expect_contains(config_error(text), {"tiny.toml:"});
  }
  expect_contains(config_error(kNgram, {"num_layers=\u00a02"}), {"key model.num_layers", "not valid TOML"});
  const std::string sound = "\ufeff# é\n[train]\nrun_dir = \"\"\"\\\n é\"\"\"\"\" # é\n" + std::string(kNgram);
  EXPECT_EQ(parse_config(sound, "a.toml").train.run_dir, "é\"\"");
  EXPECT_EQ(parse_config(file_with("train", "run_dir = 'é\\' # é"), "a.toml").train.run_dir, "é\\");
}

TEST(ConfigErrorsTest, NumbersThatDoNotFit) {
  for (const char* value : {"99999999999999999999", "1e999", "01", "1__0", "1_", ".5", "5.", "0x", "True", "abc", ""}) {
    expect_contains(config_error(file_with("model", std::string("num_layers = ") + value)),
                    {"tiny.toml:4:", "key model.num_layers must be an integer from 1"});
  }
  expect_contains(config_error(file_with("data", "alpha = [1,\n 2,\n 1e999]")), {"tiny.toml:5:", "key data.alpha"});
  expect_contains(config_error(file_with("model", "num_layers = 9223372036854775807")), {"must be an integer from 1"});
  expect_contains(config_error(file_with("model", "seed = 4294967296")), {"must be an integer from 0 to 4294967295"});
}

TEST(ConfigErrorsTest, ArgumentsThatAreNoValues) {
  for (const char* value : {"2.5", "abc", "true", "\"2\"", "99999999999999999999", "2 3", "2,", "2]", "[2]", "2\n",
                            "nan", "2\nseq_len = 3", "2\r\n[train]\nsteps=1", "{x=1}", "01", "=2"}) {
    expect_contains(config_error(kNgram, {std::string("num_layers=") + value}),
                    {"argument \"num_layers=", "key model.num_layers", "must be an integer from 1 to 1024"});
  }
  for (const char* value : {"abc", "\"1e-3\"", "1e-3x", "0x1p3", "1,5", "inf", "-nan", "1e", "true"}) {
    expect_contains(config_error(kNgram, {std::string("learning_rate=") + value}),
                    {"key optim.learning_rate", "must be a number"});
  }
  for (const char* argument : {"num_layers=", "run_dir=", "norm_position= ", "optim.learning_rate="}) {
    expect_contains(config_error(kNgram, {argument}), {argument, "no value", "must be"});
  }
  expect_contains(config_error(kNgram, {"norm_position=past"}), {"\"past\"", "\"pre\", \"post\" or \"sandwich\""});
  expect_contains(config_error(kNgram, {"run_dir=\"a"}), {"train.run_dir"});
  expect_contains(config_error(kNgram, {"run_dir=\xff\xfe"}), {"train.run_dir"});
  expect_contains(config_error(kNgram, {std::string("run_dir=a\nb")}), {"without control characters"});
}

TEST(ConfigErrorsTest, AnArgumentWithoutEqualsShowsTheUsage) {
  for (const char* argument : {"learning_rate", "", "=", "=3", "1e-3", "tiny.toml"}) {
    expect_contains(config_error(kNgram, {argument}), {"argument \"", "usage: ", "key=value"});
  }
}

struct Bounds {
  const char *table, *name;
  std::vector<const char*> inside, outside;
};

TEST(ConfigErrorsTest, Ranges) {
  const std::vector<Bounds> all = {
      {"model", "num_layers", {"1", "1024"}, {"0", "-1", "1025"}},
      {"model", "d_model", {"4", "65536"}, {"0", "-4", "65537"}},
      {"model", "num_heads", {"1", "128"}, {"0", "-1", "65537"}},
      {"model", "num_kv_heads", {"1", "4"}, {"0", "-1"}},
      {"model", "d_ff", {"1", "1048576"}, {"0", "-1", "1048577"}},
      {"model", "seq_len", {"1", "1048576"}, {"0", "-1", "1048577"}},
      {"model", "norm_eps", {"1e-12", "1"}, {"0", "-1e-5", "1.1"}},
      {"model", "dropout", {"0", "0.99"}, {"-0.1", "1", "1.1", "0.9999999999"}},
      {"model", "attention_dropout", {"0", "0.99"}, {"-0.1", "1", "1.1"}},
      {"model", "logit_softcap", {"0", "1e-3", "1e6"}, {"-1", "1e-4", "1e7"}},
      {"model", "init_std", {"1e-6", "10"}, {"0", "-0.02", "11"}},
      {"model", "mup_base_width", {"0", "1", "65536"}, {"-1", "65537"}},
      {"model", "seed", {"0", "4294967295"}, {"-1", "4294967296"}},
      {"data", "vocab_size", {"2", "256"}, {"1", "0", "-1", "65537"}},
      {"data", "order", {"1", "5"}, {"0", "-1", "22"}},
      {"data", "seed", {"0", "4294967295"}, {"-1", "4294967296"}},
      {"data", "source_seed", {"0", "4294967295"}, {"-1", "4294967296"}},
      {"optim", "learning_rate", {"1e-12", "1e30"}, {"0", "-1e-3", "1e31", "1e-13"}},
      {"optim", "min_learning_rate", {"0", "1e-3"}, {"-1e-3"}},
      {"optim", "warmup_steps", {"0", "1000"}, {"-1"}},
      {"optim", "weight_decay", {"0", "999"}, {"-0.1", "1001"}},
      {"optim", "beta1", {"0", "0.999"}, {"1", "-0.1", "1.5", "0.99999999"}},
      {"optim", "beta2", {"0", "0.999"}, {"1", "-0.1", "1.5", "0.99999999"}},
      {"optim", "eps", {"1e-8", "1e-20"}, {"0", "-1e-8", "1e-40"}},
      {"optim", "clip_norm", {"0", "0.0", "-0.0", "1e-6", "1e6"}, {"-1", "1e-7", "1e-320", "-1e-6", "1e7"}},
      {"train", "steps", {"1", "1000000000"}, {"0", "-1", "1000000001"}},
      {"train", "batch_size", {"1", "1048576"}, {"0", "-1", "1048577"}},
      {"train", "micro_batch_size", {"0", "16"}, {"-1"}},
      {"train", "seed", {"0", "4294967295"}, {"-1", "4294967296"}},
      {"train", "eval_interval", {"1", "1000000000"}, {"0", "-1"}},
      {"train", "eval_batches", {"0", "1000000000"}, {"-1"}},
      {"train", "log_interval", {"1", "1000000000"}, {"0", "-1"}},
  };
  for (const Bounds& bounds : all) {
    for (const char* value : bounds.inside) {
      const std::string line = std::string(bounds.name) + " = " + value;
      EXPECT_NO_THROW(parse_config(file_with(bounds.table, line), "a.toml")) << line;
    }
    for (const char* value : bounds.outside) {
      const std::string line = std::string(bounds.name) + " = " + value;
      expect_contains(config_error(file_with(bounds.table, line)),
                      {"tiny.toml:", std::string("key ") + bounds.table + "." + bounds.name + " is ", " from "});
    }
  }
  EXPECT_NO_THROW(parse_config(kNgram, "a.toml", {"optimizer=sgd", "momentum=0.999"}));
  for (const char* argument : {"decay_steps=0", "decay_steps=-1"}) {
    expect_contains(config_error(kNgram, {"schedule=wsd", argument}), {"key optim.decay_steps is ", " from 1"});
  }
  for (const char* argument : {"momentum=1", "momentum=-0.1", "momentum=0.99999999"}) {
    expect_contains(config_error(kNgram, {"optimizer=sgd", argument}), {"key optim.momentum is ", " from "});
  }
}

TEST(ConfigErrorsTest, TheFirstErrorOfAFileIsTold) {
  expect_contains(config_error("[train]\nzeps = 1\n[data]\nsource = 1\nabc = 2\n"), {"tiny.toml:2:1: "});
  expect_contains(config_error("[train]\nsteps = 0\nbatch = 2\n[data]\nsource = 1\n"), {"tiny.toml:2:1: "});
}

TEST(ConfigErrorsTest, AFileThatCannotBeRead) {
  const auto error_of = [](const std::string& path) -> std::string {
    try {
      load_config(path);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const std::string here = std::filesystem::current_path().string();
  expect_contains(error_of("nowhere/x.toml"), {here + "/nowhere/x.toml", "No such file"});
  expect_contains(error_of("."), {here, "folder"});
  EXPECT_NE(error_of(""), "");
  const std::string large = ::testing::TempDir() + "heed_config_large.toml";
  std::ofstream(large) << std::string(1 << 20, ' ');
  expect_contains(error_of(large), {"data.source is missing"});
  std::ofstream(large) << std::string((1 << 20) + 1, ' ');
  expect_contains(error_of(large), {large, "1048576 bytes"});
  std::filesystem::remove(large);
}

// Whatever is in a file, it is read or refused in one line that names it.
TEST(ConfigErrorsTest, DamagedTextIsReadOrRefused) {
  std::string sound = config_to_toml(parse_config(kNgram, "a.toml"));
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = sound;
    for (int change = 0; change < 3; ++change) {
      const std::size_t place = random() % text.size();
      text[place] = change == 0 ? "\n\"'[]{}=.,#\\ -e19\xc3\xff\x01"[random() % 20] : text[random() % text.size()];
    }
    try {
      parse_config(text, "tiny.toml");
    } catch (const ConfigError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("tiny.toml")) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 600u) << message;
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(ConfigErrorsTest, AFileNameWithAControlCharacterIsRefused) {
  try {
    parse_config(kNgram, "a\nb.toml");
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    expect_contains(error.what(), {"a\\u000Ab.toml", "control character"});
  }
}

TEST(ConfigErrorsTest, LongNamesAndValuesAreCut) {
  const std::string longest(100000, 'a');
  EXPECT_LT(config_error(file_with("train", longest + " = 1")).size(), 500u);
  EXPECT_LT(config_error(file_with("train", "steps = \"" + longest + "\"")).size(), 500u);
  EXPECT_LT(config_error(kNgram, {longest}).size(), 500u);
  EXPECT_LT(config_error(kNgram, {longest + "=1"}).size(), 500u);
  EXPECT_LT(config_error(std::string(kNgram) + "[" + longest + "]").size(), 500u);
}

}  // namespace
}  // namespace heed::train
