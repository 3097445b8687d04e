// libFuzzer on the config reader, in memory.
//
// The input is a config file; each byte 0xFF, which no UTF-8 has, begins an override `key=value`. It must give one
// ConfigError of one line, or a Config that prints as a file that reads back as the same.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "autograd/core/check.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "train/config.hpp"
#include "train/config_schema.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace heed;
using namespace heed::train;
using heed::test::expect, heed::test::expect_one_line;

constexpr char kOverride = '\xFF';

void expect_reads_back(const Config& config) {
  const std::string printed = config_to_toml(config);
  expect(config_to_toml(parse_config(printed, "printed.toml")) == printed);
  expect(!describe_config(config).empty());
}

// A table, a key with its default, or the same as an override: what mutating bytes would take long to find.
std::string some_line(std::minstd_rand& random) {
  const KeySpec& key = schema()[random() % schema().size()];
  const std::string value = key.get(Config{});
  switch (random() % 4) {
    case 0:
      return "[" + key.table + "]\n";
    case 1:
      return kOverride + key.path() + "=" + value;
    default:
      return key.name + " = " + value + "\n";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  for (size_t place = text.rfind(kOverride); place != std::string::npos; place = text.rfind(kOverride)) {
    overrides.insert(overrides.begin(), text.substr(place + 1));
    text.resize(place);
  }
  std::optional<Config> config;
  try {
    config = parse_config(text, "fuzzed.toml", overrides);
  } catch (const ConfigError& error) {
    expect_one_line(error.what());
    return 0;
  }
  expect_reads_back(*config);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::string line = some_line(random);
  if (random() % 4 != 0 || size + line.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  const size_t place = std::min(text.find('\n', random() % (size + 1)), size);
  text.insert(place == size ? size : place + 1, line);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
