#include "data/token_file.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "autograd/core/check.hpp"
#include "data/batch_loader.hpp"
#include "data/text/char_tokenizer.hpp"
#include "data/text/tokenizer.hpp"
#include "data/text_dataset.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

using Ids = std::vector<int32_t>;

Ids counting_tokens(int64_t count, int32_t vocab_size) {
  Ids tokens(count);
  for (int64_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(i * 7919 % vocab_size);
  return tokens;
}

std::string write_tokens(const ScratchFolder& folder, const Tokenizer& tokenizer, const Ids& tokens,
                         const SplitSizes& sizes) {
  TokenFileWriter writer(folder.path("tokens.h5"), tokenizer, 0);
  writer.append(tokens);
  writer.finish(sizes, {"story.txt", 12345, "00000000feedbeef", "test 1"});
  return folder.path("tokens.h5");
}

CharTokenizer large_tokenizer() {
  std::vector<char32_t> characters(70'000);
  std::iota(characters.begin(), characters.end(), 0x10000);
  return CharTokenizer(characters, false);
}

TEST(TokenFile, GivesBackWhatWasWritten) {
  const ScratchFolder folder;
  const ByteTokenizer tokenizer(false);
  const Ids tokens = counting_tokens(200'000, 256);  // three blocks and a part
  const TokenFile file(write_tokens(folder, tokenizer, tokens, {150'000, 30'000, 20'000}));
  EXPECT_EQ(file.size(), 200'000);
  EXPECT_EQ(file.type(), Hdf5Type::u16);
  EXPECT_EQ(file.tokenizer()->serialize(), tokenizer.serialize());
  EXPECT_EQ(file.sizes().train, 150'000);
  EXPECT_EQ(file.sizes().validation, 30'000);
  EXPECT_EQ(file.sizes().test, 20'000);
  EXPECT_EQ(file.provenance().source_name, "story.txt");
  EXPECT_EQ(file.provenance().source_bytes, 12345);
  EXPECT_EQ(file.provenance().source_checksum, "00000000feedbeef");
  EXPECT_EQ(file.provenance().written_by, "test 1");
  Ids all(200'000);
  file.read(0, all);
  EXPECT_TRUE(all == tokens);
  for (const int64_t first : {0, 1, 65'530, 65'535, 65'536, 131'000, 199'990}) {
    Ids piece(10);
    file.read(first, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), tokens.begin() + first)) << first;
  }
  file.read(200'000, {});
  file.verify();
}

TEST(TokenFile, TakesFourBytesForALargeVocabulary) {
  const ScratchFolder folder;
  const CharTokenizer tokenizer = large_tokenizer();
  const Ids tokens = counting_tokens(70'000, 70'000);
  const TokenFile file(write_tokens(folder, tokenizer, tokens, {70'000, 0, 0}));
  EXPECT_EQ(file.type(), Hdf5Type::u32);
  Ids all(70'000);
  file.read(0, all);
  EXPECT_TRUE(all == tokens);
}

TEST(TokenFile, RefusesWhatIsOutside) {
  const ScratchFolder folder;
  const ByteTokenizer tokenizer(false);
  const TokenFile file(write_tokens(folder, tokenizer, counting_tokens(100, 256), {100, 0, 0}));
  Ids piece(10);
  EXPECT_THROW(file.read(91, piece), ValueError);
  EXPECT_THROW(file.read(-1, piece), ValueError);
  EXPECT_THROW(file.read(INT64_MAX - 4, piece), ValueError);

  TokenFileWriter writer(folder.path("other.h5"), tokenizer, 0);
  EXPECT_THROW(writer.append(Ids{256}), ValueError);
  EXPECT_THROW(writer.append(Ids{-1}), ValueError);
  writer.append(Ids{1, 2, 3});
  EXPECT_EQ(writer.size(), 3);
  EXPECT_THROW(writer.finish({1, 1, 0}, {}), ValueError);
}

TEST(TokenFile, ASourceReadsTheSameSequencesAsFromMemory) {
  const ScratchFolder folder;
  const ByteTokenizer tokenizer(false);
  const Ids tokens = counting_tokens(150'000, 256);
  const std::string path = write_tokens(folder, tokenizer, tokens, {120'000, 20'000, 10'000});
  const auto source = make_token_dataset({path, 5, 64});
  EXPECT_EQ(source->vocab_size(), 256);
  EXPECT_EQ(source->tokenizer()->kind(), TokenizerKind::byte);
  const BatchLoader loader(*source, 64, 32);
  std::vector<Batch> batches(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { batches[t] = loader.train_batch(3, 8 * t, 8); });
  for (std::thread& thread : threads) thread.join();
  const Batch whole = loader.train_batch(3, 0, 32);
  for (int t = 0; t < 4; ++t) {
    EXPECT_TRUE(std::equal(batches[t].targets.begin(), batches[t].targets.end(), whole.targets.begin() + t * 8 * 64));
  }
  for (size_t i = 0; i < whole.inputs.size(); ++i) EXPECT_EQ(whole.targets[i], (whole.inputs[i] + 7919) % 256);
  EXPECT_EQ(loader.eval_batch(Split::test, 0, 1).inputs[0], tokens[140'000]);
}

TEST(TokenFile, ASourceNeedsASequenceInEachSplit) {
  const ScratchFolder folder;
  const std::string path = write_tokens(folder, ByteTokenizer(false), counting_tokens(100, 256), {95, 5, 0});
  EXPECT_TRUE(contains(error_text<DataError>([&] {
                         make_token_dataset({path, 1, 8});
                       }),
                       {path, "100 tokens", "5 of them for validation", "at least 9", "heed data prepare"}));
}

TEST(TokenFile, ASourceNeedsASequenceInATestSplitOfOneTokenToo) {
  const ScratchFolder folder;
  const std::string path = write_tokens(folder, ByteTokenizer(false), counting_tokens(100, 256), {90, 9, 1});
  EXPECT_TRUE(contains(error_text<DataError>([&] { make_token_dataset({path, 1, 8}); }), {path, "1 of them for test"}));
}

TEST(TokenFile, RefusesAPathThatIsNoTokenFile) {
  const ScratchFolder folder;
  const auto text_of = [](const std::string& path) { return error_text<DataError>([&] { TokenFile file(path); }); };
  EXPECT_TRUE(contains(text_of(folder.path("none.h5")), {folder.path("none.h5"), "No such file"}));
  EXPECT_TRUE(contains(text_of(folder.path()), {"folder"}));
  EXPECT_TRUE(contains(text_of(folder.write("empty.h5", "")), {"empty.h5", "not a token file"}));
  EXPECT_TRUE(contains(text_of(folder.write("text.h5", std::string(5000, 'x'))), {"text.h5", "not a token file"}));
  Hdf5File foreign = Hdf5File::create(folder.path("foreign.h5"));
  foreign.create_dataset("tokens", Hdf5Type::u16, 10);
  foreign.close();
  EXPECT_TRUE(contains(text_of(folder.path("foreign.h5")), {"foreign.h5", "not a token file"}));
}

TEST(TokenFile, RefusesAFileThatIsCutOffOrHasBytesBehind) {
  const ScratchFolder folder;
  write_tokens(folder, ByteTokenizer(false), counting_tokens(1000, 256), {1000, 0, 0});
  const std::string bytes = folder.read("tokens.h5");
  for (size_t length = 0; length < bytes.size(); length += 1 + length / 7) {
    const std::string path = folder.write("cut.h5", bytes.substr(0, length));
    EXPECT_THROW(TokenFile file(path), DataError) << length;
  }
  const std::string path = folder.write("long.h5", bytes + "x");
  EXPECT_THROW(TokenFile file(path), DataError);
}

// Every damaged byte is found: in the metadata when the file is opened, in the tokens when they are read.
TEST(TokenFile, FindsEveryDamagedByte) {
  const ScratchFolder folder;
  const Ids tokens = counting_tokens(1000, 256);
  write_tokens(folder, ByteTokenizer(false), tokens, {1000, 0, 0});
  const std::string bytes = folder.read("tokens.h5");
  int64_t in_tokens = 0, unused = 0;
  uint32_t state = 1;
  for (int trial = 0; trial < 300; ++trial) {
    state = state * 1664525u + 1013904223u;
    std::string damaged = bytes;
    const size_t place = state % (bytes.size() - 64);
    for (size_t i = 0; i < 64; ++i) damaged[place + i] = static_cast<char>(damaged[place + i] ^ (state >> 24 | 1));
    folder.write("damaged.h5", damaged);
    std::unique_ptr<TokenFile> file;
    try {
      file = std::make_unique<TokenFile>(folder.path("damaged.h5"));
    } catch (const DataError& error) {
      EXPECT_TRUE(contains(error.what(), {folder.path("damaged.h5")}));
      continue;
    }
    Ids read(1000);
    try {
      file->read(0, read);
      EXPECT_EQ(read, tokens);  // the rest of the last chunk, which no token is in
      ++unused;
    } catch (const DataError& error) {
      EXPECT_TRUE(contains(error.what(), {folder.path("damaged.h5"), "tokens from 0 on"}));
      ++in_tokens;
    }
  }
  EXPECT_GT(in_tokens, 0);
  EXPECT_GT(unused, 0);
}

TEST(TokenFile, ADamagedBlockDoesNotKeepOthersFromBeingRead) {
  const ScratchFolder folder;
  Ids tokens(200'000);
  uint32_t state = 1;
  for (int32_t& token : tokens) token = static_cast<int32_t>((state = state * 1664525u + 1013904223u) >> 24);
  write_tokens(folder, ByteTokenizer(false), tokens, {200'000, 0, 0});
  std::string bytes = folder.read("tokens.h5");
  // The second block, found by its first tokens.
  std::string second;
  for (int64_t i = 65'536; i < 65'636; ++i) second += {static_cast<char>(tokens[i]), '\0'};
  const size_t place = bytes.find(second);
  ASSERT_NE(place, std::string::npos);
  bytes[place + 1000] = static_cast<char>(bytes[place + 1000] ^ 1);
  const TokenFile file(folder.write("tokens.h5", bytes));
  Ids piece(10);
  EXPECT_NO_THROW(file.read(0, piece));
  EXPECT_NO_THROW(file.read(131'072, piece));
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.read(65'530, piece); }), {"damaged", "from 65536 on"}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.read(70'000, piece); }), {"damaged", "from 65536 on"}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.verify(); }), {"damaged", "from 65536 on"}));
}

TEST(TokenFile, RefusesAFileOfAnotherVersionByName) {
  const ScratchFolder folder;
  const std::string path = folder.path("older.h5");
  Hdf5File::create(path, kSealBlockBytes, path).close();
  PosixFile sealed(path, PosixFile::Access::read_write);
  write_checksum_block(sealed, "heed token file4", {});
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { TokenFile file(path); }), {path, "format version", "create it again"}));
}

// A long file has chunks of many blocks: read within one, over the edge of two, and behind the last whole one.
TEST(TokenFile, LongFilesHaveFewChunks) {
  const ScratchFolder folder;
  const ByteTokenizer tokenizer(false);
  const Ids tokens = counting_tokens(700'000, 256);
  TokenFileWriter writer(folder.path("tokens.h5"), tokenizer, 300'000'000);
  writer.append(tokens);
  writer.finish({700'000, 0, 0}, {});
  EXPECT_EQ(Hdf5File::open(folder.path("tokens.h5")).dataset("tokens", {Hdf5Type::u16}).chunk_elements(), 5 * 65'536);
  const TokenFile file(folder.path("tokens.h5"));
  for (const int64_t first : {0, 5 * 65'536 - 5, 10 * 65'536 - 5, 699'990}) {
    Ids piece(10);
    file.read(first, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), tokens.begin() + first)) << first;
  }
  file.verify();
}

// A seal that fits does not make sense of what is under it.
TEST(TokenFile, RefusesASealedFileWithTheWrongContent) {
  const ScratchFolder folder;
  const std::string path = folder.path("odd.h5");
  const std::string tokenizer = ByteTokenizer(false).serialize();
  const auto write = [&](int64_t vocab_size, int64_t train, Hdf5Type type, bool with_tokens) {
    Hdf5File file = Hdf5File::create(path, kSealBlockBytes, path);
    file.create_dataset("tokenizer", Hdf5Type::u8, 10)
        .append(std::span(reinterpret_cast<const uint8_t*>(tokenizer.data()), tokenizer.size()));
    if (with_tokens) {
      Hdf5Dataset tokens = file.create_dataset("tokens", type, 65536);
      if (type == Hdf5Type::u16) tokens.append(std::span<const uint16_t>(std::vector<uint16_t>(10, 3)));
      if (type == Hdf5Type::u8) tokens.append(std::span<const uint8_t>(std::vector<uint8_t>(10, 3)));
    }
    file.create_dataset("block_checksum", Hdf5Type::u64, 10)
        .append(std::span<const uint64_t>(std::vector<uint64_t>{1}));
    file.write_attribute("vocab_size", vocab_size);
    file.write_attribute("train_tokens", train);
    for (const char* name : {"validation_tokens", "test_tokens", "source_bytes"}) {
      file.write_attribute(name, int64_t{0});
    }
    for (const char* name : {"source_name", "source_checksum", "written_by"}) {
      file.write_attribute(name, std::string(name));
    }
    file.close();
    PosixFile sealed(path, PosixFile::Access::read_write);
    write_checksum_block(sealed, "heed token file3", {});
    return error_text<DataError>([&] {
      const TokenFile read(path);
      Ids tokens(10);
      read.read(0, tokens);
    });
  };
  EXPECT_TRUE(contains(write(255, 10, Hdf5Type::u16, true), {path, "vocab_size 255", "256 tokens"}));
  EXPECT_TRUE(contains(write(256, 11, Hdf5Type::u16, true), {path, "10 tokens", "splits of 11"}));
  EXPECT_TRUE(contains(write(256, -1, Hdf5Type::u16, true), {path, "splits of -1"}));
  EXPECT_TRUE(contains(write(256, 10, Hdf5Type::u16, false), {path, "tokens", "open"}));
  EXPECT_TRUE(contains(write(256, 10, Hdf5Type::u8, true), {path, "tokens", "u8", "u16 or u32"}));
  EXPECT_TRUE(contains(write(256, 10, Hdf5Type::u16, true), {path, "damaged", "from 0 on"}));  // a wrong block_checksum
}

}  // namespace
}  // namespace heed::data
