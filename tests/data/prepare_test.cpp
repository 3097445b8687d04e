#include "data/prepare.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "autograd/core/check.hpp"
#include "data/text/tokenizer.hpp"
#include "data/token_file.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::mixed_scripts, test::ScratchFolder;

PrepareConfig prepare_config(const ScratchFolder& folder, const std::string& text, TokenizerKind kind) {
  return {.text_path = folder.write("text.txt", text),
          .output_path = folder.path("tokens.h5"),
          .tokenizer = kind,
          .vocab_size = 300,
          .val_fraction = 0.2,
          .test_fraction = 0.1,
          .written_by = "test"};
}

TEST(Prepare, TheTokensAreTheText) {
  const std::string text = mixed_scripts(4'500'000);  // more than one piece
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::bpe}) {
#ifndef HEED_HAVE_SENTENCEPIECE
    if (kind == TokenizerKind::bpe) continue;
#endif
    const ScratchFolder folder;
    prepare_token_file(prepare_config(folder, text, kind));
    const TokenFile file(folder.path("tokens.h5"));
    EXPECT_EQ(file.tokenizer()->kind(), kind);
    std::vector<int32_t> tokens(file.size());
    file.read(0, tokens);
    std::string expected = text;
    if (kind != TokenizerKind::byte) std::erase(expected, '\r');  // each is before a line feed
    EXPECT_TRUE(file.tokenizer()->decode(tokens) == expected);
    EXPECT_TRUE(file.tokenizer()->encode(expected) == tokens);
    EXPECT_EQ(file.sizes().train, file.size() * 7 / 10);
    EXPECT_EQ(file.sizes().total(), file.size());
    EXPECT_EQ(file.provenance().source_name, "text.txt");
    EXPECT_EQ(file.provenance().source_bytes, static_cast<int64_t>(text.size()));
    EXPECT_EQ(folder.names().size(), 2u);
  }
}

TEST(Prepare, ReportsItsProgress) {
  const ScratchFolder folder;
  std::vector<std::string> finished;
  int64_t last = 0;
  prepare_token_file(prepare_config(folder, std::string(9'000'000, 'a'), TokenizerKind::character),
                     [&](const char* phase, int64_t done, int64_t total) {
                       EXPECT_EQ(total, 9'000'000);
                       EXPECT_GT(done, last);
                       last = done == total ? 0 : done;
                       if (done == total) finished.emplace_back(phase);
                     });
  EXPECT_EQ(finished, (std::vector<std::string>{"reading", "encoding"}));
}

TEST(Prepare, DescribesTheFile) {
  const ScratchFolder folder;
  prepare_token_file(prepare_config(folder, std::string(1000, 'a') + "b", TokenizerKind::character));
  const std::string text = describe_token_file(folder.path("tokens.h5"));
  for (const char* part : {"1001 (u16)", "700 training, 200 validation, 101 test", "char, 2 entries", "text.txt",
                           "1001 bytes (1.000 a token)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  }
}

// What a hostile or odd name holds does not reach the terminal.
TEST(Prepare, DescribesAFileOfAnOddNameInOneLineEach) {
  const ScratchFolder folder;
  PrepareConfig config = prepare_config(folder, "some text", TokenizerKind::byte);
  config.text_path = folder.write("a\x1b[2J\nb.txt", "some text");
  config.output_path = folder.path("t\n.h5");
  config.written_by = "\x1b]0;x\x07";
  prepare_token_file(config);
  const std::string text = describe_token_file(config.output_path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("from          \"a\\u001B[2J\\u000Ab.txt\", 9 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("written by    \\u001B]0;x\\u0007"), std::string::npos) << text;
}

TEST(Prepare, NeverOverwrites) {
  const ScratchFolder folder;
  const PrepareConfig config = prepare_config(folder, "some text", TokenizerKind::byte);
  folder.write("tokens.h5", "precious");
  EXPECT_TRUE(contains(error_text<DataError>([&] { prepare_token_file(config); }), {"tokens.h5", "there already"}));
  EXPECT_EQ(folder.read("tokens.h5"), "precious");
  PrepareConfig onto_itself = config;
  onto_itself.output_path = config.text_path;
  EXPECT_THROW(prepare_token_file(onto_itself), DataError);
  EXPECT_EQ(folder.read("text.txt"), "some text");
}

TEST(Prepare, LeavesNothingBehindWhenItFails) {
  const ScratchFolder folder;
  const auto text_of = [&](const PrepareConfig& config) {
    const std::string text = error_text<DataError>([&] { prepare_token_file(config); });
    EXPECT_EQ(folder.names(), std::vector<std::string>{"text.txt"});
    return text;
  };
  EXPECT_TRUE(contains(text_of(prepare_config(folder, "", TokenizerKind::byte)), {"text.txt", "empty"}));
  EXPECT_TRUE(contains(text_of(prepare_config(folder, "ab\x92", TokenizerKind::character)), {"text.txt", "offset 2"}));
  PrepareConfig nowhere = prepare_config(folder, "text", TokenizerKind::byte);
  nowhere.output_path = folder.path("none/tokens.h5");
  EXPECT_TRUE(contains(text_of(nowhere), {"none/tokens.h5", "No such file"}));
  PrepareConfig missing = nowhere;
  missing.text_path = folder.path("none.txt");
  EXPECT_TRUE(contains(text_of(missing), {"none.txt"}));
  PrepareConfig shares = prepare_config(folder, "text", TokenizerKind::byte);
  shares.val_fraction = 1;
  EXPECT_THROW(prepare_token_file(shares), ConfigError);
}

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

// Like a full disk: writing fails in the middle, HDF5 must not notice, and nothing is left.
TEST(Prepare, StopsWhereAFileMayNotGrow) {
  const ScratchFolder folder;
  const PrepareConfig config = prepare_config(folder, std::string(20'000'000, 'a'), TokenizerKind::byte);
  for (const rlim_t limit : {1000, 100'000, 5'000'000, 20'000'000, 40'000'000}) {
    std::string text;
    {
      const FileSizeLimit limited(limit);
      text = error_text<DataError>([&] { prepare_token_file(config); });
    }
    EXPECT_TRUE(contains(text, {"tokens.h5", std::to_string(limit) + " bytes"}));
    EXPECT_EQ(text.find("text.txt"), std::string::npos) << text;  // there is nothing wrong with the text
    EXPECT_EQ(folder.names(), std::vector<std::string>{"text.txt"});
  }
  prepare_token_file(config);
  EXPECT_EQ(TokenFile(config.output_path).size(), 20'000'000);
}

// The room for a whole chunk is made before its first tokens are written: HDF5 sets the end of the file behind it.
TEST(Prepare, StopsWhereAChunkDoesNotFit) {
  const ScratchFolder folder;
  const ByteTokenizer tokenizer(false);
  const std::vector<int32_t> tokens(65'536, 7);
  const FileSizeLimit limited(20'000'000);
  TokenFileWriter large(folder.path("large.h5"), tokenizer, int64_t{1} << 34);  // chunks of 34 MB
  EXPECT_TRUE(contains(error_text<DataError>([&] { large.append(tokens); }), {"large.h5", "20000000 bytes"}));
  TokenFileWriter small(folder.path("small.h5"), tokenizer, int64_t{1} << 32);  // of 8.7 MB
  small.append(tokens);
  small.finish({65'536, 0, 0}, {});
  EXPECT_EQ(TokenFile(folder.path("small.h5")).size(), 65'536);
}

}  // namespace
}  // namespace heed::data
