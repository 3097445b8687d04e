// libFuzzer on the config reader, in memory.
//
// The first byte chooses what the others are:
// - a config file; each byte 0xFF, which no UTF-8 has, begins an override `key=value`;
// - keys with values, in a file or as overrides, most of which can stand beside each other.
// Either gives one ConfigError of one line, or a Config that prints as a file that reads back to the same values.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/core/check.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/train/config/config_values.hpp"
#include "train/config/config.hpp"
#include "train/config/config_schema.hpp"

namespace {

using namespace heed;
using namespace heed::train;
using heed::test::Bytes, heed::test::expect, heed::test::expect_one_line, heed::test::values;

void expect_reads_back(const Config& config) {
  const Config copy = parse_config(config_to_toml(config), "printed.toml");
  expect(values(copy.model) == values(config.model) && values(copy.data) == values(config.data));
  expect(values(copy.optim) == values(config.optim) && values(copy.train) == values(config.train));
  expect(!describe_config(config).empty());
}

void try_config(const std::string& text, const std::vector<std::string>& overrides) {
  std::optional<Config> config;
  try {
    config = parse_config(text, "fuzzed.toml", overrides);
  } catch (const ConfigError& error) {
    expect_one_line(error.what());
    return;
  }
  expect_reads_back(*config);
}

void try_text(std::string text) {
  std::vector<std::string> overrides;
  for (size_t place = text.rfind('\xFF'); place != std::string::npos; place = text.rfind('\xFF')) {
    overrides.insert(overrides.begin(), text.substr(place + 1));
    text.resize(place);
  }
  try_config(text, overrides);
}

// One of the words in quotes that the key allows, a number, or anything.
std::string some_value(const KeySpec& key, Bytes& bytes) {
  std::vector<std::string> words;
  for (size_t begin = key.allowed.find('"'); begin != std::string::npos;) {
    const size_t end = key.allowed.find('"', begin + 1);
    words.push_back(key.allowed.substr(begin, end + 1 - begin));
    begin = key.allowed.find('"', end + 1);
  }
  if (!words.empty() && bytes.number() % 8 != 7) return words[bytes.number() % words.size()];
  const double fraction = (bytes.number() + 1) / (bytes.number() + 257.0);
  switch (bytes.number() % 8) {
    case 0:
      return key.get(Config{});
    case 1:
      return fmt::format("{}", fraction);
    case 2:
      return fmt::format("{}e{}", fraction, bytes.number() % 16 - 12);
    case 3:
      return fmt::format("[{}, {}]", bytes.number() % 8, 1 + bytes.number() % 8);
    case 4:
      return bytes.number() % 2 == 0 ? "true" : "false";
    case 5:
      return bytes.text();
    default:
      return fmt::format("{}", bytes.number());
  }
}

void try_keys(Bytes bytes) {
  std::string text;
  std::vector<std::string> overrides;
  std::set<std::string> given;
  while (!bytes.empty()) {
    const KeySpec& key = given.empty() ? *find_key("data", "source") : schema()[bytes.number() % schema().size()];
    const std::string value = some_value(key, bytes);
    if (!given.insert(key.path()).second) continue;
    if (bytes.number() % 2 == 0) {
      text += key.path() + " = " + value + "\n";
    } else {
      overrides.push_back(key.path() + "=" + value);
    }
  }
  try_config(text, overrides);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) try_text(std::string(bytes));
  if (data[0] % 2 == 1) try_keys(Bytes(bytes));
  return 0;
}
