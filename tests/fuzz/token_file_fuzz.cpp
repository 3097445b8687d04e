// libFuzzer on the token file reader.
//
// The first byte chooses what the others are:
// - a file as it is, whose seal must be refused or be right;
// - the same, and the checksums of its footer, or of its block, are made to fit;
// - a tokenizer as it is stored, with a fitting checksum;
// - what a token file holds, each part as it should be or odd, in an HDF5 file with a seal that fits;
// - tokens, which must come back as they were.
// HDF5 never sees bytes that heed did not make: it may crash on them, which is why the seal comes before it.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "data/io/checksum.hpp"
#include "data/io/posix_file.hpp"
#include "data/text/bpe_tokenizer.hpp"
#include "data/text/char_tokenizer.hpp"
#include "data/text/tokenizer.hpp"
#include "data/token_file.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/odd_hdf5.hpp"

namespace {

using namespace heed;
using namespace heed::data;
using heed::test::Bytes, heed::test::expect, heed::test::expect_one_line, heed::test::OddHdf5File;

constexpr SealKind kSeal{"heed token file3", "heed token file2", "token file"};
constexpr std::string_view kMagic = kSeal.footer_magic;

// The one file of this program.
class OneFile {
 public:
  OneFile() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-fuzz-XXXXXX").string();
    expect(mkstemp(name.data()) >= 0);
    path_ = name;
  }
  ~OneFile() { unlink(path_.c_str()); }
  OneFile(const OneFile&) = delete;
  OneFile& operator=(const OneFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string& path() {
  static const OneFile file;
  return file.path();
}

void write_file(std::string_view bytes) {
  PosixFile file(path(), PosixFile::Access::read_write);
  file.truncate(0);
  file.write(0, bytes);
}

bool has_seal() {
  try {
    verify_checksum_block(PosixFile(path(), PosixFile::Access::read), kSeal);
    return true;
  } catch (const DataError& error) {
    expect_one_line(error.what());
    return false;
  }
}

uint64_t word_at(std::string_view bytes, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

// The footer by its places: magic 0, body bytes 16, ranges 24, checksums of body 32, of table 40, of footer 56.
constexpr size_t kFooterBytes = 64;

// As the format says it, by other code than the reader's.
bool seal_is_right(std::string_view file) {
  const std::string_view footer = file.substr(file.size() - kFooterBytes);
  const uint64_t body_bytes = word_at(footer, 16), num_ranges = word_at(footer, 24);
  if (body_bytes + 16 * num_ranges + kFooterBytes != file.size()) return false;
  const std::string_view table = file.substr(body_bytes, 16 * num_ranges);
  std::string body(file.substr(0, body_bytes));
  uint64_t end = body_bytes;
  for (uint64_t i = num_ranges; i-- > 0;) {
    const uint64_t first = word_at(table, 16 * i), behind = word_at(table, 16 * i + 8);
    if (first > behind || behind > end) return false;
    body.erase(first, behind - first);
    end = first;
  }
  return footer.starts_with(kMagic) && word_at(footer, 32) == checksum(body) &&
         word_at(footer, 40) == checksum(table) && word_at(footer, 56) == checksum(footer.substr(0, 56));
}

// The block at the beginning: magic 0, bytes of the file 16, ranges 24, checksums of body 32, of table 40, zero 48, of
// the header 56; the table from 64 on.
bool block_is_right(std::string_view file) {
  if (file.size() < kSealBlockBytes || word_at(file, 16) != file.size() || word_at(file, 48) != 0) return false;
  const std::string_view table = file.substr(64, kSealBlockBytes - 64);
  const uint64_t num_ranges = word_at(file, 24);
  if (num_ranges > table.size() / 16) return false;
  if (table.find_first_not_of('\0', 16 * num_ranges) != std::string_view::npos) return false;
  std::string body(file);
  uint64_t end = file.size();
  for (uint64_t i = num_ranges; i-- > 0;) {
    const uint64_t first = word_at(table, 16 * i), last = word_at(table, 16 * i + 8);
    if (first > last || last > end || first < kSealBlockBytes) return false;
    body.erase(first, last - first);
    end = first;
  }
  return file.starts_with(kSeal.magic) &&
         word_at(file, 32) == checksum(std::string_view(body).substr(kSealBlockBytes)) &&
         word_at(file, 40) == checksum(table) && word_at(file, 56) == checksum(file.substr(0, 56));
}

void try_seal(std::string_view file) {
  write_file(file);
  const bool has_block = file.size() >= kFooterBytes && file.starts_with(kSeal.magic.substr(0, 15));
  expect(has_seal() == (has_block ? block_is_right(file) : file.size() >= kFooterBytes && seal_is_right(file)));
}

// The block with every checksum right, of few ranges, and a body of few bytes.
void try_fitting_block(Bytes bytes) {
  const size_t num_ranges = bytes.number() % 4;
  std::string table;
  for (size_t i = 0; i < 2 * num_ranges; ++i) {
    const uint64_t place = kSealBlockBytes + bytes.number() - (bytes.number() == 1 ? 200 : 0);
    table.append(reinterpret_cast<const char*>(&place), sizeof(place));
  }
  table.resize(kSealBlockBytes - 64, '\0');
  if (bytes.number() == 1) table.back() = 'x';
  const std::string body(bytes.rest());
  std::string left = std::string(kSealBlockBytes, '\0') + body;
  for (size_t i = num_ranges; i-- > 0;) {
    const uint64_t first = word_at(table, 16 * i), last = word_at(table, 16 * i + 8);
    if (first <= last && last <= left.size()) left.erase(first, last - first);
  }
  left.erase(0, kSealBlockBytes);
  const uint64_t words[] = {kSealBlockBytes + body.size(), num_ranges, checksum(left), checksum(table), 0};
  std::string header(kSeal.magic);
  header.append(reinterpret_cast<const char*>(words), sizeof(words));
  const uint64_t sum = checksum(header);
  header.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  try_seal(header + table + body);
}

// One byte for the body and one for the ranges, so that they often fit; eight bytes for each end of a range.
void try_fitting_seal(Bytes bytes) {
  const size_t body_bytes = bytes.number(), num_ranges = bytes.number() % 8;
  std::string body(bytes.text()), table, footer(kFooterBytes, '\0');
  body.resize(body_bytes);
  std::string left(body);
  for (size_t i = 0; i < num_ranges; ++i) {
    const uint64_t range[2] = {bytes.number(), bytes.number() * (bytes.number() == 0 ? uint64_t{1} << 56 : 1)};
    table.append(reinterpret_cast<const char*>(range), sizeof(range));
  }
  for (size_t i = num_ranges; i-- > 0;) {
    const uint64_t first = word_at(table, 16 * i), behind = word_at(table, 16 * i + 8);
    if (first <= behind && behind <= left.size()) left.erase(first, behind - first);
  }
  const uint64_t words[] = {body_bytes, num_ranges, checksum(left), checksum(table), 0};
  std::memcpy(footer.data(), kMagic.data(), kMagic.size());
  std::memcpy(footer.data() + 16, words, sizeof(words));
  const uint64_t sum = checksum(std::string_view(footer).substr(0, 56));
  std::memcpy(footer.data() + 56, &sum, sizeof(sum));
  try_seal(body + table + footer);
}

std::string with_checksum(std::string bytes) {
  const uint64_t sum = checksum(bytes);
  return bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
}

void expect_works(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  try {
    ids = tokenizer.encode(text);
  } catch (const DataError& error) {
    expect(tokenizer.kind() == TokenizerKind::character);
    expect_one_line(error.what());
    return;
  }
  expect(tokenizer.decode(ids) == text);
  const int64_t cut = tokenizer.safe_cut(text);
  expect(cut <= static_cast<int64_t>(text.size()));
  std::vector<int32_t> joined = tokenizer.encode(text.substr(0, cut));
  const std::vector<int32_t> rest = tokenizer.encode(text.substr(cut));
  joined.insert(joined.end(), rest.begin(), rest.end());
  expect(joined == ids);
}

// The header is as it should be, up to kind, end token and number of pieces.
std::string stored_tokenizer(Bytes& bytes) {
  const bool is_bpe = bytes.number() % 2 == 1;
  std::string stored = "heedtok2";
  stored += static_cast<char>(is_bpe ? 2 : bytes.number());
  stored += static_cast<char>(bytes.number() % 3);
  const uint32_t count = bytes.number() + (is_bpe ? 256 : 0);
  stored.append(reinterpret_cast<const char*>(&count), sizeof(count));
  for (const std::string& piece : is_bpe ? byte_pieces() : std::vector<std::string>()) stored += '\1' + piece;
  return with_checksum(stored + bytes.text());
}

void try_tokenizer(Bytes bytes) {
  const std::string stored = stored_tokenizer(bytes);
  try {
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::parse(stored);
    expect(tokenizer->serialize() == stored);
    expect_works(*tokenizer, bytes.rest());
  } catch (const DataError& error) {
    expect_one_line(error.what());
  }
}

std::unique_ptr<Tokenizer> some_tokenizer(Bytes& bytes) {
  switch (bytes.number()) {
    case 0:
      return std::make_unique<ByteTokenizer>(bytes.number() % 2 == 0);
    case 1:
      return std::make_unique<BpeTokenizer>(std::vector<std::string>{"ab", "abab", "aba"}, bytes.number() % 2 == 0);
    case 2: {
      std::vector<char32_t> characters(70'000);  // tokens of four bytes
      for (size_t i = 0; i < characters.size(); ++i) characters[i] = static_cast<char32_t>(0x10000 + i);
      return std::make_unique<CharTokenizer>(std::move(characters), false);
    }
    default:
      return std::make_unique<CharTokenizer>(std::vector<char32_t>{U'a', U'b', U'é', U'語'}, bytes.number() % 2 == 0);
  }
}

std::vector<int32_t> some_tokens(Bytes& bytes, int64_t vocab_size) {
  const size_t repetitions = bytes.number() == 1 ? 300 : 1;  // more than a block
  const std::string text = bytes.text();
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < repetitions; ++i) tokens.insert(tokens.end(), text.begin(), text.end());
  for (int32_t& token : tokens) token = static_cast<int32_t>((token & 0xFF) * 257 % vocab_size);
  return tokens;
}

void try_content(Bytes bytes) {
  const std::string tokenizer = bytes.number() == 1 ? stored_tokenizer(bytes) : some_tokenizer(bytes)->serialize();
  const int64_t vocab_size = bytes.number() % 2 == 0 ? 256 : bytes.number() % 2 == 0 ? 4 : 257 + bytes.number();
  const std::vector<int32_t> tokens = some_tokens(bytes, bytes.number() == 1 ? 70'000 : vocab_size);
  std::vector<uint64_t> checksums;
  for (size_t first = 0; first < tokens.size(); first += 65536) {
    const size_t count = std::min<size_t>(65536, tokens.size() - first);
    checksums.push_back(checksum(&tokens[first], static_cast<int64_t>(4 * count)));
  }
  OddHdf5File file(path(), bytes, kSealBlockBytes);
  file.add("tokenizer", H5T_STD_U8LE, H5T_NATIVE_UINT8, tokenizer.data(), tokenizer.size());
  file.add("tokens", H5T_STD_U16LE, H5T_NATIVE_INT32, tokens.data(), tokens.size());
  file.add("block_checksum", H5T_STD_U64LE, H5T_NATIVE_UINT64, checksums.data(), checksums.size());
  file.add_attribute("vocab_size", vocab_size);
  const auto size = static_cast<int64_t>(tokens.size());
  file.add_attribute("train_tokens", size - size / 4);
  file.add_attribute("validation_tokens", size / 4);
  file.add_attribute("test_tokens", int64_t{0});
  for (const char* name : {"tokenizer_kind", "source_name", "source_checksum", "written_by"}) file.add_attribute(name);
  file.add_attribute("source_bytes", size);
  file.close();
  {
    PosixFile sealed(path(), PosixFile::Access::read_write);
    write_checksum_block(sealed, kSeal.magic, {});
  }
  try {
    const TokenFile read(path());
    expect(read.sizes().total() == read.size());
    std::vector<int32_t> ids(std::min<int64_t>(read.size(), 1 << 20));
    read.read(0, ids);
    const int64_t limit = read.tokenizer()->vocab_size();
    expect(std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return 0 <= id && id < limit; }));
    read.verify();
  } catch (const DataError& error) {
    expect_one_line(error.what());
  }
}

void try_writing(Bytes bytes) {
  const std::unique_ptr<Tokenizer> tokenizer = some_tokenizer(bytes);
  const std::vector<int32_t> tokens = some_tokens(bytes, tokenizer->vocab_size());
  const auto size = static_cast<int64_t>(tokens.size()), train = size / (1 + bytes.number());
  TokenFileWriter writer(path(), *tokenizer, bytes.number() % 2 == 0 ? 0 : 70'000'000);
  const int64_t cut = size * bytes.number() / 256;
  writer.append(std::span(tokens).first(cut));
  writer.append(std::span(tokens).subspan(cut));
  writer.finish({train, size - train, 0}, {bytes.text(), size, "checksum", "a version"});
  const TokenFile read(path());
  std::vector<int32_t> ids(read.size());
  read.read(0, ids);
  expect(ids == tokens && read.sizes().train == train && read.tokenizer()->serialize() == tokenizer->serialize());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 6 == 0) try_seal(bytes);
  if (data[0] % 6 == 1) try_fitting_seal(Bytes(bytes));
  if (data[0] % 6 == 2) try_tokenizer(Bytes(bytes));
  if (data[0] % 6 == 3) try_content(Bytes(bytes));
  if (data[0] % 6 == 4) try_writing(Bytes(bytes));
  if (data[0] % 6 == 5) try_fitting_block(Bytes(bytes));
  return 0;
}
