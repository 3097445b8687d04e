// Printing: the resolved config reads back to the same values, the tables show every key.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <sstream>

#include "tests/train/config/config_samples.hpp"
#include "tests/train/config/config_values.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

// The copy has another file name, so nothing may depend on it.
Config expect_reads_back(const Config& config) {
  const std::string text = config_to_toml(config);
  const Config copy = parse_config(text, "other.toml");
  EXPECT_TRUE(test::values(config.model) == test::values(copy.model));
  EXPECT_TRUE(test::values(config.data) == test::values(copy.data));
  EXPECT_TRUE(test::values(config.optim) == test::values(copy.optim));
  EXPECT_TRUE(test::values(config.train) == test::values(copy.train));
  EXPECT_EQ(config_to_toml(copy), text);
  return copy;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Line by "table.key".
std::map<std::string, std::string> by_key(const std::string& text) {
  std::map<std::string, std::string> found;
  std::string table;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("[")) {
      table = line.substr(1, line.size() - 2);
    } else if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      found[(table.empty() ? "" : table + ".") + line.substr(2, line.find(' ', 2) - 2)] = line;
    }
  }
  return found;
}

TEST(ConfigPrintTest, DefaultsReadBack) { expect_reads_back(parse_config(kNgram, "a.toml")); }

// The choices on the command line, and with them every other key that has an effect.
Config away_from_defaults(std::vector<std::string> arguments) {
  const Config chosen = parse_config("", "a.toml", arguments);
  for (const KeySample& sample : key_samples()) {
    const bool is_chosen = chosen.given.contains(sample.path());
    if (!is_chosen && find_key(sample.table, sample.name)->has_effect(chosen)) {
      arguments.push_back(sample.path() + "=" + sample.value);
    }
  }
  return parse_config("", "a.toml", arguments);
}

TEST(ConfigPrintTest, EveryKeyAwayFromItsDefaultReadsBack) {
  expect_reads_back(away_from_defaults({"source=ngram", "alpha=[3, 0.7]", "order=2", "optimizer=adamw", "device=cpu",
                                        "log_layers=false", "attention_only=false"}));
  expect_reads_back(
      away_from_defaults({"source=skip", "vocab_size=4", "offsets=[4, 1]", "optimizer=sgd", "device=cuda",
                          "precision=f32", "shard_optimizer=false", "attention_only=false", "mup_base_width=0"}));
  expect_reads_back(
      away_from_defaults({"source=skip", "offsets=[1]", "alpha=[3, 2]", "schedule=constant", "optimizer=sgd",
                          "device=cpu", "log_layers=false", "attention_only=true", "mup_base_width=0"}));
  expect_reads_back(away_from_defaults({"source=skip", "offsets=[1]", "alpha=[3, 2]", "schedule=wsd", "optimizer=muon",
                                        "device=cpu", "log_layers=false", "attention_only=false"}));
}

TEST(ConfigPrintTest, NumbersReadBackBitByBit) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-12, 30);
  for (int i = 0; i < 300; ++i) {
    Config config = parse_config(kNgram, "a.toml");
    config.optim.learning_rate = std::pow(10.0, exponent(random));
    const Config copy = parse_config(config_to_toml(config), "a.toml");
    EXPECT_EQ(std::bit_cast<uint64_t>(copy.optim.learning_rate), std::bit_cast<uint64_t>(config.optim.learning_rate));
  }
}

TEST(ConfigPrintTest, AnyFolderNameReadsBack) {
  for (const char* name : {"runs/a b", "a\"b", "a\\b", "a\\u0041", "a'b", "a#b", "a = [b]", "größe", " a "}) {
    const Config config = parse_config(kNgram, "a.toml", {std::string("run_dir=") + name});
    EXPECT_EQ(config.train.run_dir, name);
    expect_reads_back(config);
  }
  expect_reads_back(parse_config(kNgram, "configs/a\"b\\c.toml"));
}

TEST(ConfigPrintTest, WhatHasNoEffectIsNotWritten) {
  const std::string text = config_to_toml(parse_config(kNgram, "a.toml", {"optimizer=sgd", "schedule=constant"}));
  for (const char* key : {"offsets", "beta1", "beta2", "eps", "min_learning_rate"}) {
    EXPECT_EQ(text.find(std::string("\n") + key + " ="), std::string::npos) << key;
  }
}

TEST(ConfigPrintTest, DescriptionHasEveryKeyWithItsOrigin) {
  const Config config = parse_config(file_with("train", "steps = 50"), "configs/tiny.toml", {"model.seed=7"});
  const std::map<std::string, std::string> lines = by_key(describe_config(config));
  ASSERT_EQ(lines.size(), schema().size());
  for (const KeySpec& key : schema()) {
    const std::string& line = lines.at(key.path());
    expect_contains(line, {key.has_effect(config) ? key.get(config) : key.condition()});
    const bool is_given = key.path() == "train.steps" || key.path() == "data.source" || key.path() == "model.seed";
    EXPECT_EQ(line.find("default") != std::string::npos, !is_given && key.has_effect(config)) << line;
  }
  expect_contains(lines.at("train.steps"), {"50", "configs/tiny.toml:4"});
  expect_contains(lines.at("data.source"), {"\"ngram\"", "configs/tiny.toml:2"});
  expect_contains(lines.at("model.seed"), {"7", "command line"});
  expect_contains(lines.at("model.d_ff"), {"512", "default: 4 * d_model"});
  expect_contains(lines.at("data.offsets"), {"-", "only for data.source = \"skip\""});
}

TEST(ConfigPrintTest, DescriptionIsAligned) {
  const Config config = parse_config(kNgram, "a.toml", {"steps=3"});
  const std::map<std::string, std::string> lines = by_key(describe_config(config));
  const std::size_t value_column = lines.at("train.steps").find("3 ");
  const std::size_t origin_column = lines.at("train.steps").find("command line");
  for (const auto& [key, line] : lines) {
    EXPECT_EQ(line[value_column - 1], ' ') << line;
    EXPECT_NE(line[value_column], ' ') << line;
    EXPECT_EQ(line[origin_column - 1], ' ') << line;
    EXPECT_NE(line[origin_column], ' ') << line;
  }
}

TEST(ConfigPrintTest, ReferenceHasEveryKey) {
  const std::string reference = config_reference();
  const std::map<std::string, std::string> lines = by_key(reference);
  ASSERT_EQ(lines.size(), schema().size());
  for (const KeySpec& key : schema()) {
    expect_contains(lines.at(key.path()), {key.allowed, key.is_required ? "required" : "default "});
    EXPECT_FALSE(key.meaning.empty()) << key.path();
    expect_contains(reference, {key.meaning});
  }
  expect_contains(lines.at("optim.beta1"), {"a number from 0 to 0.999999; default 0.9; only for optim.optimizer"});
  expect_contains(lines.at("model.num_kv_heads"), {"default num_heads"});
}

}  // namespace
}  // namespace heed::train
