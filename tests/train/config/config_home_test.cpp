// ~ in paths, and values that TOML cannot hold.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/train/config/config_samples.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {
namespace {

class ConfigHomeTest : public ::testing::Test {
 protected:
  ConfigHomeTest() : home_(std::getenv("HOME") ? std::getenv("HOME") : "") { ::setenv("HOME", "/volume/ada", 1); }
  ~ConfigHomeTest() override { ::setenv("HOME", home_.c_str(), 1); }

 private:
  std::string home_;
};

TEST_F(ConfigHomeTest, ALeadingTildeIsTheHomeFolder) {
  EXPECT_EQ(expand_home("~"), "/volume/ada");
  EXPECT_EQ(expand_home("~/"), "/volume/ada/");
  EXPECT_EQ(expand_home("~/runs/x~"), "/volume/ada/runs/x~");
  for (const char* path : {"", "./~", "./~/x", "a/~/b", "x~", "/~", " ~/x"}) EXPECT_EQ(expand_home(path), path);
}

TEST_F(ConfigHomeTest, InEveryPathOfFileAndCommandLine) {
  const Config file =
      parse_config("[data]\nsource = \"text\"\npath = \"~/text.txt\"\n[train]\nrun_dir = '~/runs/x'\n", "a.toml");
  EXPECT_EQ(file.data.path, "/volume/ada/text.txt");
  EXPECT_EQ(file.train.run_dir, "/volume/ada/runs/x");
  const Config argument =
      parse_config("", "a.toml", {"data.source=text", "data.path=~/text.txt", "train.run_dir=\"~/runs/x\""});
  EXPECT_EQ(argument.data.path, "/volume/ada/text.txt");
  EXPECT_EQ(argument.train.run_dir, "/volume/ada/runs/x");
  expect_contains(config_to_toml(argument), {"path = \"/volume/ada/text.txt\"", "run_dir = \"/volume/ada/runs/x\""});
  expect_contains(describe_config(argument), {"\"/volume/ada/runs/x\""});
  EXPECT_EQ(parse_config(kNgram, "a.toml", {"run_dir=./~/x"}).train.run_dir, "./~/x");
}

TEST_F(ConfigHomeTest, TheHomeOfAnotherUserIsRefused) {
  expect_contains(
      config_error(kNgram, {"train.run_dir=~bob/x"}),
      {"argument \"train.run_dir=~bob/x\": key train.run_dir: \"~bob/x\"", "write the whole path", "\"./~bob/x\""});
  expect_contains(config_error(file_with("train", "run_dir = \"~~\"")),
                  {"tiny.toml:4:1: key train.run_dir", "\"./~~\""});
}

// Else a checkpoint could hold a config that does not read back.
TEST_F(ConfigHomeTest, AHomeFolderThatTomlCannotHoldIsRefused) {
  for (const char* home : {"/volume/caf\xe9", "/volume/a\nb"}) {
    ::setenv("HOME", home, 1);
    expect_contains(config_error(kNgram, {"run_dir=~/x"}), {"key train.run_dir: ", "home folder", "without ~"});
    EXPECT_EQ(expand_home("~/x"), std::string(home) + "/x");
  }
}

TEST(ConfigValueTest, BytesThatAreNotUtf8AreNamed) {
  for (const char* argument : {"data.path=caf\xe9.txt", "run_dir=caf\xe9.txt", "run_dir=\"caf\xe9.txt\"",
                               "learning_rate=1\xe9", "tokenizer=caf\xe9", "run_dir=\xc3"}) {
    const std::string error = config_error(kNgram, {argument});
    expect_contains(error, {"argument \"", "is not UTF-8, it must be "});
    EXPECT_TRUE(is_utf8(error)) << error;
  }
  expect_contains(config_error(kNgram, {"data.path=caf\xe9.txt"}),
                  {"argument \"data.path=caf\\xE9.txt\": the value of key data.path is not UTF-8"});
  for (const char* name : {"caf\xe9=1", "train.caf\xe9=1", "caf\xe9.x=1", "caf\xe9", "\xe9"}) {
    EXPECT_TRUE(is_utf8(config_error(kNgram, {name}))) << name;
  }
}

TEST(ConfigValueTest, ValuesThatAreNotTomlAreShown) {
  for (const char* value : {"five", "True", ".5", "1,5", "[1, 2"}) {
    expect_contains(config_error(kNgram, {std::string("num_layers=") + value}),
                    {"key model.num_layers has the value \"" + std::string(value) + "\", which is not valid TOML",
                     "(strings in quotes, true/false in lower case)", "must be an integer from 1 to 1024"});
  }
}

TEST(ConfigValueTest, ShortenedTextsStayUtf8) {
  for (const std::string& one : {std::string("é"), std::string("\x80"), std::string("\xe2\x82"), std::string("a")}) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += one;
    EXPECT_TRUE(is_utf8(shorten(text)));
    EXPECT_TRUE(shorten(text).ends_with("…"));
    EXPECT_LE(shorten(text).size(), 103u);
  }
  EXPECT_EQ(shorten("caf\xe9 é"), "caf\\xE9 é");
}

}  // namespace
}  // namespace heed::train
