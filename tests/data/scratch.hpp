// What the tests of files share: a folder that is gone afterwards, and the text of an error.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace heed::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<int64_t>(bytes.size()));
    return path(name);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) found.push_back(entry.path().filename());
    return found;
  }

 private:
  std::filesystem::path path_;
};

// The text of the E that `call` throws; the test fails, and the text is empty, if it throws none.
template <class E, class Call>
std::string error_text(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error, or of another kind";
  return {};
}

inline ::testing::AssertionResult contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) return ::testing::AssertionFailure() << part << " is not in: " << text;
  }
  if (text.find('\n') != std::string::npos) return ::testing::AssertionFailure() << "more than one line: " << text;
  return ::testing::AssertionSuccess();
}

// Text in several scripts, with characters of one to four bytes, control characters, runs of spaces, long words, and
// what SentencePiece gives a meaning of its own. Always the same.
inline std::string mixed_scripts(size_t num_bytes) {
  const std::vector<std::string> words = {"the",
                                          " of",
                                          " and",
                                          "\n",
                                          "  ",
                                          "\t",
                                          " Straße",
                                          " naïve",
                                          " слово",
                                          " и",
                                          " не",
                                          " λόγος",
                                          " שלום",
                                          " مرحبا",
                                          " नमस्ते",
                                          "語",
                                          "日本語の文章",
                                          "한국어",
                                          " 😀",
                                          "👩‍👩‍👧",
                                          " 1234567",
                                          ".",
                                          ",",
                                          " ▁",
                                          "▁▁",
                                          "<unk>",
                                          "<s>",
                                          " <0x41>",
                                          "\r\n",
                                          " e\u0301",
                                          "\u00a0",
                                          "\u3000",
                                          "\ufeff",
                                          "\u2047",
                                          std::string(1, '\0'),
                                          "ﬁ",
                                          "Ⅷ",
                                          "\x7f",
                                          "—",
                                          "»",
                                          "a",
                                          "b",
                                          "c"};
  std::string text;
  uint32_t state = 1;
  while (text.size() < num_bytes) {
    state = state * 1664525u + 1013904223u;
    // The square makes the first words the frequent ones.
    const double u = (state >> 8) / 16777216.0;
    text += words[static_cast<size_t>(u * u * static_cast<double>(words.size()))];
    if (state % 5000 < 2) text += std::string(700, 'w');
  }
  return text;
}

}  // namespace heed::test
