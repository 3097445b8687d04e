// A config small enough to train in a test, and a folder for its files.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace heed::test {

// Removed with all it holds at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline train::Config tiny_config(const std::vector<std::string>& overrides = {}) {
  return train::parse_config(R"(
    [model]
    num_layers = 2
    num_heads = 2
    d_model = 16
    seq_len = 8
    [data]
    source = "ngram"
    vocab_size = 6
    order = 2
    [optim]
    learning_rate = 1e-3
    [train]
    batch_size = 12
    steps = 20
    seed = 1
    eval_batches = 2
    device = "cpu"
  )",
                             "tiny.toml", overrides);
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace heed::test
