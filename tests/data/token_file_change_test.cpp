// A token file that another program changes while it is open, or that was changed before.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"
#include "data/io/hdf5_handle.hpp"
#include "data/text/tokenizer.hpp"
#include "data/text_dataset.hpp"
#include "data/token_file.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

using Ids = std::vector<int32_t>;

constexpr int64_t kTokens = 200'000;

Ids some_tokens(uint32_t state) {
  Ids tokens(kTokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>((state = state * 1664525u + 1013904223u) >> 24);
  return tokens;
}

std::string write_tokens(const ScratchFolder& folder, const std::string& name, const Ids& tokens) {
  const ByteTokenizer tokenizer(false);
  TokenFileWriter writer(folder.path(name), tokenizer, 0);
  writer.append(tokens);
  writer.finish({kTokens - 1000, 1000, 0}, {"story.txt", kTokens, "00000000feedbeef", "test 1"});
  return folder.path(name);
}

// As dd conv=notrunc and rsync --inplace do: the same file has other bytes.
void write_over(const std::string& path, const std::string& bytes) {
  PosixFile(path, PosixFile::Access::read_write).write(0, bytes);
}

void set_time(const std::string& path, int64_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

std::string read_all(const TokenFile& file) {
  Ids tokens(kTokens);
  return error_text<DataError>([&] { file.read(0, tokens); });
}

class TokenFileChange : public ::testing::Test {
 protected:
  ScratchFolder folder;
  std::string path = write_tokens(folder, "a.h5", some_tokens(1));
  std::string other = write_tokens(folder, "b.h5", some_tokens(2));
};

TEST_F(TokenFileChange, OfTheBytesIsRefusedAtTheNextRead) {
  set_time(path, 1'600'000'000);
  const auto source = make_token_dataset({path, 1, 64});
  const std::string fingerprint = source->fingerprint();
  Ids inputs(64), targets(64);
  source->train_sequence(0, 0, inputs, targets);
  write_over(path, folder.read("b.h5"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { source->train_sequence(1, 0, inputs, targets); }),
                       {path, "changed while heed was reading it", "written to", "--resume"}));
  EXPECT_EQ(source->fingerprint(), fingerprint);
  EXPECT_NE(make_token_dataset({path, 1, 64})->fingerprint(), fingerprint);
}

TEST_F(TokenFileChange, OfTheSizeIsRefused) {
  for (const int change : {-5000, 1}) {
    const TokenFile file(write_tokens(folder, "c.h5", some_tokens(1)));
    std::filesystem::resize_file(folder.path("c.h5"),
                                 std::filesystem::file_size(folder.path("c.h5")) + static_cast<uintmax_t>(change));
    EXPECT_TRUE(contains(read_all(file), {folder.path("c.h5"), "changed while heed was reading it", "another size"}));
  }
}

TEST_F(TokenFileChange, ByAFileOfTheSameNameIsRefused) {
  const TokenFile file(path);
  Ids tokens(10);
  file.read(0, tokens);
  std::filesystem::rename(other, path);
  EXPECT_TRUE(contains(read_all(file), {path, "changed while heed was reading it", "another file has its name"}));
}

// rsync and cp -p set the time of modification; here it is what it was before. Only the tokens tell.
TEST_F(TokenFileChange, WithTheOldTimeIsRefusedWhereItsTokensAreRead) {
  set_time(path, 1'600'000'000);
  const TokenFile file(path);
  Ids tokens(10);
  file.read(0, tokens);
  file.read(190'000, tokens);
  std::string bytes = folder.read("a.h5");
  // In the last block, found by its first tokens.
  std::string last;
  const Ids written = some_tokens(1);
  for (int64_t i = 196'608; i < 196'708; ++i) last += {static_cast<char>(written[i]), '\0'};
  const size_t place = bytes.find(last);
  ASSERT_NE(place, std::string::npos);
  bytes[place + 10] = static_cast<char>(bytes[place + 10] ^ 1);
  write_over(path, bytes);
  set_time(path, 1'600'000'000);
  file.read(0, tokens);
  EXPECT_EQ(tokens[3], written[3]);
  EXPECT_TRUE(contains(read_all(file), {path, "damaged", "from 196608 on"}));  // it had not been read before
  file.read(190'000, tokens);
  EXPECT_EQ(tokens[3], written[190'003]);
}

// A file system with times of two seconds does not show a change right after another. The clock of the file is set back
// for that by hand: no call can set the time of the last change, so the test is of a file that was just written.
TEST_F(TokenFileChange, RightAfterItWasWrittenIsFoundByTheTokens) {
  const TokenFile file(path);
  Ids tokens(10);
  file.read(0, tokens);
  struct stat before {};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  write_over(path, folder.read("b.h5"));
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_TRUE(contains(read_all(file), {path, "changed while heed was reading it", "its tokens"}));
}

// A file that has been as it is for some seconds is not verified at every read, so changes that its times hide must be
// found in other ways.
TEST_F(TokenFileChange, OfAFileThatIsTrustedIsFound) {
  const Ids written = some_tokens(1);
  set_time(path, 1'600'000'000);
  const int mapped_file = open(other.c_str(), O_RDWR | O_CLOEXEC);
  const auto bytes = static_cast<size_t>(std::filesystem::file_size(other));
  auto* const mapped = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapped_file, 0));
  ASSERT_NE(mapped, MAP_FAILED);
  close(mapped_file);
  volatile char* const in_tokens = mapped + bytes / 2;
  *in_tokens = static_cast<char>(*in_tokens ^ 1);  // from now on the page can be written without a new time
  *in_tokens = static_cast<char>(*in_tokens ^ 1);
  sleep(4);
  const TokenFile file(path), file_of_map(other);
  Ids tokens(kTokens), piece(100);
  file.read(0, tokens);
  file_of_map.read(0, tokens);
  for (const int64_t first : {0, 65'500, 131'071, 199'900}) {
    file.read(first, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), written.begin() + first)) << first;
  }
  *in_tokens = static_cast<char>(*in_tokens ^ 1);
  const std::string text = error_text<DataError>([&] {
    for (int i = 0; i < 64; ++i) file_of_map.read(0, tokens);
  });
  EXPECT_TRUE(contains(text, {other, "changed while heed was reading it"}));
  munmap(mapped, bytes);

  write_over(path, folder.read("b.h5"));
  set_time(path, 1'600'000'000);
  EXPECT_TRUE(contains(read_all(file), {path, "changed while heed was reading it", "its tokens"}));
}

TEST_F(TokenFileChange, OfNameAndRightsIsNone) {
  const TokenFile file(path);
  Ids tokens(kTokens);
  file.read(0, tokens);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  file.read(0, tokens);
  std::filesystem::rename(path, folder.path("moved.h5"));
  file.read(0, tokens);
  std::filesystem::remove(folder.path("moved.h5"));
  file.read(0, tokens);
  EXPECT_TRUE(tokens == some_tokens(1));
}

// h5py in mode "r+", h5clear, HDFView: the file is opened for writing and closed again.
void open_for_writing(const std::string& path) {
  const Hdf5Call call;
  const Hdf5Handle file(hdf5_checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open it"));
}

TEST_F(TokenFileChange, ByHdf5OpenedForWritingIsNone) {
  const std::string bytes = folder.read("a.h5");
  open_for_writing(path);
  EXPECT_TRUE(folder.read("a.h5") == bytes);
  Ids tokens(kTokens);
  TokenFile(path).read(0, tokens);
  EXPECT_TRUE(tokens == some_tokens(1));
}

// The form of version 2: no block at the beginning, a footer at the end.
class OldTokenFile : public TokenFileChange {
 protected:
  OldTokenFile() {
    const Ids tokens = some_tokens(1);
    const std::string tokenizer = ByteTokenizer(false).serialize();
    Hdf5File file = Hdf5File::create(old);
    Hdf5Dataset dataset = file.create_dataset("tokens", Hdf5Type::u16, 65536);
    std::vector<uint64_t> checksums;
    for (int64_t first = 0; first < kTokens; first += 65536) {
      const auto block = std::span(tokens).subspan(first, std::min<int64_t>(65536, kTokens - first));
      dataset.append(std::span<const uint16_t>(std::vector<uint16_t>(block.begin(), block.end())));
      checksums.push_back(checksum(block.data(), static_cast<int64_t>(block.size_bytes())));
    }
    for (const int64_t address : dataset.chunk_addresses()) ranges.push_back({address, address + 2 * 65536});
    dataset.close();
    file.create_dataset("tokenizer", Hdf5Type::u8, static_cast<int64_t>(tokenizer.size()))
        .append(std::span(reinterpret_cast<const uint8_t*>(tokenizer.data()), tokenizer.size()));
    file.create_dataset("block_checksum", Hdf5Type::u64, 4).append(std::span<const uint64_t>(checksums));
    for (const auto& [name, value] : {std::pair("vocab_size", int64_t{256}),
                                      {"train_tokens", kTokens - 1000},
                                      {"validation_tokens", 1000},
                                      {"test_tokens", 0},
                                      {"source_bytes", kTokens}}) {
      file.write_attribute(name, value);
    }
    for (const char* name : {"tokenizer_kind", "source_name", "source_checksum", "written_by"}) {
      file.write_attribute(name, std::string(name));
    }
    file.close();
    body = folder.read("old.h5");
    folder.write("old.h5", body + footer("heed token file2"));
  }

  std::string footer(const std::string& magic) const {
    const std::string table(reinterpret_cast<const char*>(ranges.data()), 16 * ranges.size());
    std::string outside;
    size_t end = 0;
    for (const FileRange& range : ranges) {
      outside += body.substr(end, static_cast<size_t>(range.begin) - end);
      end = static_cast<size_t>(range.end);
    }
    outside += body.substr(end);
    const uint64_t words[] = {body.size(), ranges.size(), checksum(outside), checksum(table), 0};
    std::string bytes = magic + std::string(reinterpret_cast<const char*>(words), sizeof(words));
    const uint64_t sum = checksum(bytes);
    return table + bytes + std::string(reinterpret_cast<const char*>(&sum), sizeof(sum));
  }

  std::string old = folder.path("old.h5"), body;
  std::vector<FileRange> ranges;
};

TEST_F(OldTokenFile, IsRead) {
  const TokenFile file(old);
  Ids tokens(kTokens);
  file.read(0, tokens);
  EXPECT_TRUE(tokens == some_tokens(1));
  EXPECT_EQ(file.provenance().source_changes, "");
  EXPECT_EQ(make_token_dataset({old, 1, 8})->fingerprint(), make_token_dataset({path, 1, 8})->fingerprint());
}

TEST_F(OldTokenFile, OfVersionOneOrDamagedIsRefused) {
  const auto text_of = [&](const std::string& bytes) {
    return error_text<DataError>([&] { TokenFile file(folder.write("old.h5", bytes)); });
  };
  EXPECT_TRUE(contains(text_of(body + footer("heed token file1")), {old, "format version"}));
  std::string damaged = body + footer("heed token file2");
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  EXPECT_TRUE(contains(text_of(damaged), {old, "damaged", "content"}));
  EXPECT_TRUE(contains(text_of(body + "x" + footer("heed token file2")), {old, "damaged", "length"}));
}

TEST_F(OldTokenFile, ThatHdf5CutIsNamed) {
  open_for_writing(old);
  EXPECT_TRUE(contains(error_text<DataError>([&] { TokenFile file(old); }),
                       {old, "lost the checksums at its end", "h5py", "heed data prepare"}));
}

}  // namespace
}  // namespace heed::data
