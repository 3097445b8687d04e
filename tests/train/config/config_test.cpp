// Reading: values from the file, the command line and defaults, and where each came from.
#include "train/config/config.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/train/config/config_samples.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

std::string value_of(const Config& config, const KeySample& sample) {
  return find_key(sample.table, sample.name)->get(config);
}

std::vector<std::string> with_partner(const KeySample& sample, std::vector<std::string> overrides) {
  for (const std::string& partner : sample.partners) {
    overrides.push_back(partner);
  }
  return overrides;
}

TEST(ConfigTest, SamplesAreExactlyTheSchema) {
  std::vector<std::string> sampled, known;
  for (const KeySample& sample : key_samples()) {
    sampled.push_back(sample.path());
  }
  for (const KeySpec& key : schema()) {
    known.push_back(key.path());
  }
  EXPECT_EQ(sampled, known);
}

TEST(ConfigTest, DefaultsAreFilledIn) {
  const Config config = parse_config(kNgram, "configs/first.toml");
  EXPECT_EQ(config.model.num_kv_heads, config.model.num_heads);
  EXPECT_EQ(config.model.d_ff, 4 * config.model.d_model);
  EXPECT_EQ(config.model.vocab_size, config.data.vocab_size);
  EXPECT_EQ(config.data.alpha, (std::vector<double>{32, 8, 4}));
  EXPECT_EQ(config.train.run_dir, "runs/first");
  EXPECT_EQ(config.train.rows_per_micro_batch(), config.train.batch_size);
}

TEST(ConfigTest, AlphaHasOneValuePerLevel) {
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"order=1"}).data.alpha, (std::vector<double>{32}));
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"order=2"}).data.alpha, (std::vector<double>{32, 8}));
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"order=5", "vocab_size=4"}).data.alpha,
            (std::vector<double>{32, 8, 4, 4, 4}));
  const Config skip = parse_config("[data]\nsource = \"skip\"\noffsets = [7]\nvocab_size = 4", "a.toml");
  EXPECT_EQ(skip.data.alpha, (std::vector<double>{32, 8}));
}

TEST(ConfigTest, DependentDefaultsFollowOverrides) {
  const Config config = parse_config(kNgram, "a.toml", {"d_model=24", "num_heads=6", "vocab_size=7"});
  EXPECT_EQ(config.model.num_kv_heads, 6);
  EXPECT_EQ(config.model.d_ff, 96);
  EXPECT_EQ(config.model.vocab_size, 7);
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"num_kv_heads=1", "d_ff=5"}).model.num_kv_heads, 1);
}

TEST(ConfigTest, GatedActivationsHaveTwoThirdsOfTheHiddenWidth) {
  const auto d_ff = [](const char* width, const char* activation) {
    return parse_config(kNgram, "a.toml", {width, "num_heads=1", activation}).model.d_ff;
  };
  EXPECT_EQ(d_ff("d_model=24", "activation=silu"), 96);
  EXPECT_EQ(d_ff("d_model=24", "activation=swiglu"), 64);
  EXPECT_EQ(d_ff("d_model=25", "activation=geglu"), 67);
  EXPECT_EQ(d_ff("d_model=64", "activation=swiglu"), 192);
  EXPECT_EQ(d_ff("d_model=4096", "activation=swiglu"), 10944);
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"activation=swiglu", "d_ff=5"}).model.d_ff, 5);
}

TEST(ConfigTest, NamesAreTheirEnumerators) {
  const auto with = [](const char* argument) { return parse_config(kNgram, "a.toml", {argument}); };
  EXPECT_EQ(with("norm=layer").model.norm, nn::NormKind::layer);
  EXPECT_EQ(with("norm=rms").model.norm, nn::NormKind::rms);
  EXPECT_EQ(with("norm_position=sandwich").model.norm_position, nn::NormPosition::sandwich);
  EXPECT_EQ(with("norm_position=pre").model.norm_position, nn::NormPosition::pre);
  EXPECT_EQ(with("norm_position=post").model.norm_position, nn::NormPosition::post);
  EXPECT_EQ(with("activation=gelu").model.activation, nn::Activation::gelu);
  EXPECT_EQ(with("activation=relu").model.activation, nn::Activation::relu);
  EXPECT_EQ(with("activation=relu2").model.activation, nn::Activation::relu2);
  EXPECT_EQ(with("activation=gelu_erf").model.activation, nn::Activation::gelu_erf);
  EXPECT_EQ(with("activation=silu").model.activation, nn::Activation::silu);
  EXPECT_EQ(with("activation=swiglu").model.activation, nn::Activation::swiglu);
  EXPECT_EQ(with("activation=geglu").model.activation, nn::Activation::geglu);
  EXPECT_EQ(with("position=learned").model.position, nn::Position::learned);
  EXPECT_EQ(with("position=sinusoidal").model.position, nn::Position::sinusoidal);
  EXPECT_EQ(with("position=rope").model.position, nn::Position::rope);
  EXPECT_EQ(with("position=none").model.position, nn::Position::none);
  EXPECT_EQ(with("optimizer=adamw").optim.optimizer, OptimizerKind::adamw);
  EXPECT_EQ(with("optimizer=sgd").optim.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(with("optimizer=muon").optim.optimizer, OptimizerKind::muon);
  EXPECT_EQ(with("schedule=cosine").optim.schedule, ScheduleKind::cosine);
  EXPECT_EQ(with("schedule=linear").optim.schedule, ScheduleKind::linear);
  EXPECT_EQ(with("schedule=constant").optim.schedule, ScheduleKind::constant);
  EXPECT_EQ(with("schedule=wsd").optim.schedule, ScheduleKind::wsd);
  EXPECT_EQ(with("device=auto").train.device, DeviceChoice::automatic);
  EXPECT_EQ(with("device=cpu").train.device, DeviceChoice::cpu);
  EXPECT_EQ(with("device=cuda").train.device, DeviceChoice::cuda);
  EXPECT_EQ(with("final_eval=full").train.final_eval, FinalEval::full);
  EXPECT_EQ(with("final_eval=subset").train.final_eval, FinalEval::subset);
  EXPECT_EQ(with("final_eval=none").train.final_eval, FinalEval::none);
  EXPECT_EQ(with("existing_run=move").train.existing_run, ExistingRun::move);
  EXPECT_EQ(with("existing_run=refuse").train.existing_run, ExistingRun::refuse);
  EXPECT_EQ(with("precision=f32").train.precision, DType::f32);
  EXPECT_EQ(with("precision=f64").train.precision, DType::f64);
  EXPECT_EQ(with("data.source=ngram").data.source, DataSource::ngram);
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"source=skip", "offsets=[1]"}).data.source, DataSource::skip);
}

// The partner of a sample is given on the command line, so that the file holds nothing else.
TEST(ConfigTest, EveryKeyIsReadFromAFile) {
  for (const KeySample& sample : key_samples()) {
    if (sample.name == "source") {
      continue;
    }
    const std::string text = file_with(sample.table, sample.name + " = " + sample.value);
    const Config config = parse_config(text, "a.toml", with_partner(sample, {}));
    EXPECT_EQ(value_of(config, sample), sample.value) << sample.path();
    EXPECT_NE(sample.value, find_key(sample.table, sample.name)->get(Config{})) << sample.path();
    EXPECT_EQ(config.origin(sample.path()).kind, OriginKind::file) << sample.path();
    const int line = sample.table.empty() ? 1 : sample.table == "data" ? 3 : 4;
    EXPECT_EQ(config.origin(sample.path()).line, line) << sample.path();
  }
}

TEST(ConfigTest, EveryKeyIsReadFromTheCommandLine) {
  for (const KeySample& sample : key_samples()) {
    const Config config = parse_config(kNgram, "a.toml", with_partner(sample, {sample.path() + "=" + sample.value}));
    EXPECT_EQ(value_of(config, sample), sample.value) << sample.path();
    EXPECT_EQ(config.origin(sample.path()).kind, OriginKind::command_line) << sample.path();
  }
}

TEST(ConfigTest, EveryKeyOfOneTableNeedsNoTableOnTheCommandLine) {
  for (const KeySample& sample : key_samples()) {
    const std::vector<std::string> overrides = with_partner(sample, {sample.name + "=" + sample.value});
    if (sample.name == "seed") continue;  // the key before the tables
    EXPECT_EQ(value_of(parse_config(kNgram, "a.toml", overrides), sample), sample.value) << sample.path();
  }
}

TEST(ConfigTest, OneSeedIsTheDefaultOfAll) {
  const auto seeds = [](const std::string& text, const std::vector<std::string>& overrides) {
    const Config c = parse_config(text, "a.toml", overrides);
    return std::vector<uint32_t>{c.model.seed, c.data.seed, c.train.seed, c.data.source_seed};
  };
  using Seeds = std::vector<uint32_t>;
  EXPECT_EQ(seeds(kNgram, {}), (Seeds{1, 1, 1, 1}));
  EXPECT_EQ(seeds("seed = 3\n" + std::string(kNgram), {}), (Seeds{3, 3, 3, 1}));
  EXPECT_EQ(seeds(kNgram, {"seed=3", "model.seed=4"}), (Seeds{4, 3, 3, 1}));
  // As before there was a source_seed: the language followed data.seed.
  EXPECT_EQ(seeds(kNgram, {"data.seed=5"}), (Seeds{1, 5, 1, 5}));
  EXPECT_EQ(seeds(kNgram, {"seed=2", "data.seed=5", "source_seed=6"}), (Seeds{2, 5, 2, 6}));
  // The written config means the same.
  for (const char* seed : {"seed=3", "data.seed=5", "source_seed=6"}) {
    const Config config = parse_config(kNgram, "a.toml", {seed});
    EXPECT_EQ(seeds(config_to_toml(config), {}), seeds(kNgram, {seed})) << config_to_toml(config);
    EXPECT_EQ(seeds(config_to_toml(config), {"seed=9"})[0], 9u);
  }
}

TEST(ConfigTest, TheCommandLineWinsOverTheFile) {
  const Config config = parse_config(file_with("train", "steps = 5\nbatch_size = 3"), "a.toml", {"train.steps=6"});
  EXPECT_EQ(config.train.steps, 6);
  EXPECT_EQ(config.train.batch_size, 3);
  EXPECT_EQ(config.origin("train.steps").kind, OriginKind::command_line);
  EXPECT_EQ(config.origin("train.batch_size").kind, OriginKind::file);
  EXPECT_EQ(config.origin("train.batch_size").line, 5);
  EXPECT_EQ(config.origin("train.log_interval").kind, OriginKind::by_default);
}

TEST(ConfigTest, NumbersAreWhatStrtodReads) {
  const char* spellings[] = {"1",    "1.0",       "1e-3",    "1E-3",   "0.001",  "1_000e-6", "+0.001",
                             "1e+0", "123.4e-05", "0.1e-09", "1000.0", "0.3e-1", "6.02214e1"};
  for (std::string spelling : spellings) {
    const Config from_file = parse_config(file_with("optim", "learning_rate = " + spelling), "a.toml");
    const Config from_argument = parse_config(kNgram, "a.toml", {"learning_rate=" + spelling});
    std::string plain = spelling;
    std::erase(plain, '_');
    const double expected = std::strtod(plain.c_str(), nullptr);
    EXPECT_EQ(std::bit_cast<uint64_t>(from_file.optim.learning_rate), std::bit_cast<uint64_t>(expected)) << spelling;
    EXPECT_EQ(std::bit_cast<uint64_t>(from_argument.optim.learning_rate), std::bit_cast<uint64_t>(expected))
        << spelling;
  }
}

TEST(ConfigTest, AnIntegerIsANumberInEveryFloatKey) {
  EXPECT_EQ(parse_config(file_with("model", "dropout = 0"), "a.toml").model.dropout, 0.0);
  EXPECT_EQ(parse_config(file_with("data", "alpha = [3, 2.5, 1]"), "a.toml").data.alpha,
            (std::vector<double>{3, 2.5, 1}));
}

TEST(ConfigTest, WordsNeedNoQuotesOnTheCommandLine) {
  const auto run_dir = [](const std::string& value) {
    return parse_config(kNgram, "a.toml", {"train.run_dir=" + value}).train.run_dir;
  };
  EXPECT_EQ(run_dir("runs/x"), "runs/x");
  EXPECT_EQ(run_dir("\"runs/x\""), "runs/x");
  EXPECT_EQ(run_dir("'runs/x'"), "runs/x");
  EXPECT_EQ(run_dir("runs/a b=c#d\\n\"e\".é"), "runs/a b=c#d\\n\"e\".é");
  EXPECT_EQ(run_dir("true"), "true");
  EXPECT_EQ(run_dir("7"), "7");
}

TEST(ConfigTest, AnyWayOfWritingATableWorks) {
  for (const char* text : {"data.source = \"ngram\"\ndata.order = 2", "data = {source = \"ngram\", order = 2}",
                           "[data]\r\nsource = 'ngram' # comment\r\n\"order\" = 0b10\r\n"}) {
    EXPECT_EQ(parse_config(text, "a.toml").data.order, 2) << text;
  }
}

TEST(ConfigTest, AFileIsReadFromTheCurrentFolder) {
  const std::filesystem::path folder = ::testing::TempDir() + "heed_config_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "one.toml") << kNgram << "order = 2\n";
  const Config config = load_config((folder / "one.toml").string(), {"steps=3"});
  EXPECT_EQ(config.data.order, 2);
  EXPECT_EQ(config.train.steps, 3);
  EXPECT_EQ(config.train.run_dir, "runs/one");
  const std::string relative = std::filesystem::relative(folder / "one.toml").string();
  EXPECT_EQ(load_config(relative).data.order, 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace heed::train
