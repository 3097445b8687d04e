// What the reader makes of TOML beyond the library: a limit on keys that refuses nothing else, and the key that a
// syntax error is about.
#include <gtest/gtest.h>

#include "tests/train/config/config_samples.hpp"

namespace heed::train {
namespace {

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

void expect_no_hint(const std::string& error) { EXPECT_EQ(error.find("(key "), std::string::npos) << error; }

TEST(ConfigTomlTest, DotsInCommentsAndStringsAreFree) {
  const std::string dots(101, '.');
  const auto run_dir = [](const std::string& text) { return parse_config(text, "a.toml").train.run_dir; };
  EXPECT_NO_THROW(parse_config("# " + dots + "\n" + kNgram + "# " + dots, "a.toml"));
  EXPECT_NO_THROW(parse_config(file_with("train", "steps = 1 # \"" + dots), "a.toml"));
  for (const char* quotes : {"\"", "'", "\"\"\"", "'''"}) {
    EXPECT_EQ(run_dir(file_with("train", "run_dir = " + (quotes + dots) + quotes)), dots);
  }
  EXPECT_EQ(run_dir(file_with("train", "run_dir = \"\"\"\\\n" + dots + "\\\n  " + dots + "\"\"\"")), dots + dots);
  EXPECT_EQ(run_dir(file_with("train", "run_dir = \"\\\"" + dots + "#\"")), "\"" + dots + "#");
  EXPECT_EQ(run_dir(file_with("train", "run_dir = \"\"\"" + dots + "\"\"\"\"\" # " + dots)), dots + "\"\"");
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"run_dir=" + dots}).train.run_dir, dots);
}

// TOML, though no config: the error is not about dots.
TEST(ConfigTomlTest, DotsOfManyNumbersAreFree) {
  const std::string numbers = repeated("0.5, ", 200);
  expect_contains(config_error(file_with("data", "alpha = [" + numbers + "]")), {"alpha has 200 elements"});
  expect_contains(config_error(kNgram, {"alpha=[" + numbers + "]"}), {"alpha has 200 elements"});
}

TEST(ConfigTomlTest, KeysOfManyPartsDoNotOverflowTheStack) {
  const std::string parts = repeated("a.", 200'000), quoted = repeated("\"a\".", 200'000);
  for (const std::string& key : {parts, quoted, repeated("a . ", 200'000), repeated("''.", 200'000)}) {
    expect_contains(config_error(kNgram + key + "b = 1"), {"tiny.toml:3:1", "more than 20 dots"});
    expect_contains(config_error(kNgram + ("[" + key) + "b]"), {"tiny.toml:3:1", "more than 20 dots"});
    expect_contains(config_error(kNgram + ("x = [\n'#', {y = \"]\", " + key) + "b = 1}]"), {":4:1", "20 dots"});
  }
  expect_contains(config_error(kNgram, {"offsets={" + parts + "b = 1}"}), {"argument", "data.offsets"});
  // As deep as keys of allowed length go; the library refuses more than 256 values inside each other.
  const std::string deep = parts.substr(0, 40);
  config_error(kNgram + repeated(deep + "b = {", 250) + "c = 1" + repeated("}", 250));
  config_error(kNgram + repeated(deep + "b = [{", 120) + "c = 1" + repeated("}]", 120));
  for (const char* between : {"b = [{", "b = [\n{", "b = {"}) config_error(kNgram + repeated(deep + between, 300));
}

TEST(ConfigTomlTest, ASyntaxErrorNamesTheKeyOfItsLineOnly) {
  for (const char* line : {"lr: 0.1", "learning rate = 0.1", "weight decay=0.1", "größe = 3", "= 3", "steps", "!"}) {
    const std::string error = config_error(file_with("train", "log_interval = 5\n" + std::string(line)));
    expect_contains(error, {"tiny.toml:5:"});
    expect_no_hint(error);
  }
  expect_contains(config_error(file_with("train", "log_interval = 5\nsteps = 0,01")),
                  {"tiny.toml:5:", "(key train.steps must be an integer"});
  expect_no_hint(config_error(file_with("train", "log_interval = 5\n# x\n\n  # y\n[optim\n")));
}

TEST(ConfigTomlTest, AValueOfSeveralLinesKeepsItsKey) {
  expect_contains(config_error(file_with("data", "alpha = [1, # ]\n 2,\n # three\n x")),
                  {"tiny.toml:6:", "(key data.alpha must be a list"});
  expect_contains(config_error(file_with("data", "path = '''\na\n[x]\nsteps = 1\n''' x")),
                  {"tiny.toml:7:", "(key data.path must be a string"});
  expect_no_hint(config_error(file_with("data", "alpha = [1,\n2]\nsteps : 3")));
  expect_no_hint(config_error(file_with("data", "path = \"\"\"\na\"\"\"\nsteps : 3")));
  for (const char* list : {"['''a'''', 2]", R"(["""a""""", 2])", "['[', 2]", R"(["\"[", 2])"}) {
    expect_no_hint(config_error(file_with("data", "alpha = " + std::string(list) + "\nsteps : 3")));
  }
}

}  // namespace
}  // namespace heed::train
