#include "data/token_file.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"

namespace heed::data {

namespace {

constexpr SealKind kSeal{"heed token file3", "heed token file2", "token file of heed"};
static_assert(kSeal.magic.size() == kSealMagicBytes && kSeal.footer_magic.size() == kSealMagicBytes);
constexpr int64_t kBlockTokens = kTokensPerBlock;

// Few chunks, since HDF5 1.10 iterates over all of them to find the address of one. Whole blocks, so that a block is
// read from one chunk. HDF5 limits chunks to less than 4 GiB.
int64_t chunk_tokens(int64_t most_tokens) {
  constexpr int64_t kMostChunks = 1000, kMostBlocks = 4096;
  const int64_t blocks = most_tokens / (kMostChunks * kBlockTokens) + 1;
  return std::min(blocks, kMostBlocks) * kBlockTokens;
}

constexpr const char* kChangedText =
    "{} changed while heed was reading it: {}; restore the original file and repeat the command (a training run: "
    "continue with --resume), or start a new run";

// Exceeds the timestamp resolution of any file system, and the clock difference between a file server and its clients.
constexpr int64_t kCoarsestTime = 3'000'000'000;
constexpr uint64_t kReadsToVerify = 64;

int64_t now_in_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

int64_t bytes_of(Hdf5Type type) { return type == Hdf5Type::u16 ? 2 : 4; }

template <class T>
void read_as(const PosixFile& file, int64_t offset, std::span<int32_t> tokens) {
  std::vector<T> values(tokens.size());
  file.read(offset, std::span(reinterpret_cast<char*>(values.data()), values.size() * sizeof(T)));
  std::transform(values.begin(), values.end(), tokens.begin(), [](T value) { return static_cast<int32_t>(value); });
}

bool inside(std::span<const int32_t> tokens, int64_t vocab_size) {
  return std::all_of(tokens.begin(), tokens.end(), [&](int32_t id) { return 0 <= id && id < vocab_size; });
}

// Passes the elements in their type on disk: HDF5 could convert them, but slowly.
void append_tokens(Hdf5Dataset& dataset, std::span<const int32_t> tokens) {
  if (dataset.type() == Hdf5Type::u16) {
    dataset.append(std::span<const uint16_t>(std::vector<uint16_t>(tokens.begin(), tokens.end())));
  } else {
    dataset.append(std::span<const uint32_t>(std::vector<uint32_t>(tokens.begin(), tokens.end())));
  }
}

template <class T>
std::vector<T> read_all(const Hdf5Dataset& dataset) {
  std::vector<T> values(dataset.size());
  dataset.read(0, std::span(values));
  return values;
}

template <class T>
void write_all(Hdf5File& file, const char* name, Hdf5Type type, std::span<const T> values) {
  file.create_dataset(name, type, std::max<int64_t>(static_cast<int64_t>(values.size()), 1)).append(values);
}

// Offset to add to the chunk addresses of HDF5: some versions count from the end of the user block, others from the
// beginning of the file. The tokenizer is the first dataset in the file, so its address shows which: less than the size
// of the user block only if counted from its end.
int64_t address_base(const Hdf5File& file, int64_t seal_bytes) {
  const std::vector<int64_t> addresses = file.dataset("tokenizer", {Hdf5Type::u8}).chunk_addresses();
  return !addresses.empty() && addresses.front() < seal_bytes ? seal_bytes : 0;
}

Hdf5File create_with_tokenizer(const std::string& path, const std::string& name, const Tokenizer& tokenizer) {
  Hdf5File file = Hdf5File::create(path, kSealBlockBytes, name);
  PosixFile(path, PosixFile::Access::read_write, name).write(0, kUnfinishedMark);
  const std::string bytes = tokenizer.serialize();
  write_all(file, "tokenizer", Hdf5Type::u8, std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  return file;
}

std::shared_ptr<const Tokenizer> read_tokenizer(const Hdf5File& file, const std::string& name) {
  const std::vector<uint8_t> bytes = read_all<uint8_t>(file.dataset("tokenizer", {Hdf5Type::u8}));
  try {
    return Tokenizer::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace

TokenFile::TokenFile(const std::string& path)
    : name_(quoted_path(path)),
      absolute_path_(std::filesystem::absolute(path).string()),
      disk_(path, PosixFile::Access::read),
      stamp_(disk_.stamp()) {
  const int64_t seal_bytes = verify_checksum_block(disk_, kSeal);
  const Hdf5File file = Hdf5File::open(path);
  const auto require_still = [&](const FileStamp& stamp) {
    require<DataError>(stamp == stamp_, "{} changed while it was opened: try again when it is whole", name_);
  };
  require_still(file.stamp());
  load(file, seal_bytes);
  require_still(disk_.stamp());
}

void TokenFile::load(const Hdf5File& file, int64_t seal_bytes) {
  const Hdf5Dataset tokens = file.dataset("tokens", {Hdf5Type::u16, Hdf5Type::u32});
  type_ = tokens.type();
  num_tokens_ = tokens.size();
  chunk_tokens_ = tokens.chunk_elements();
  chunk_offsets_ = tokens.chunk_addresses();
  for (int64_t& offset : chunk_offsets_) offset += address_base(file, seal_bytes);
  tokenizer_ = read_tokenizer(file, name_);
  sizes_ = {file.integer_attribute("train_tokens"), file.integer_attribute("validation_tokens"),
            file.integer_attribute("test_tokens")};
  provenance_ = {file.text_attribute("source_name"), file.integer_attribute("source_bytes"),
                 file.text_attribute("source_checksum"), file.text_attribute("written_by"),
                 file.has_attribute("source_changes") ? file.text_attribute("source_changes") : ""};
  block_checksums_ = read_all<uint64_t>(file.dataset("block_checksum", {Hdf5Type::u64}));
  states_.assign(block_checksums_.size(), BlockState::unread);
  require_consistent(file.integer_attribute("vocab_size"));
}

void TokenFile::require_consistent(int64_t vocab_size) const {
  const auto num_blocks = static_cast<int64_t>(block_checksums_.size());
  require<DataError>(num_blocks == (num_tokens_ + kBlockTokens - 1) / kBlockTokens,
                     "{} has {} tokens, but checksums of {} blocks", name_, num_tokens_, num_blocks);
  require<DataError>(vocab_size == tokenizer_->vocab_size(), "{} has vocab_size {}, but a tokenizer of {} tokens",
                     name_, vocab_size, tokenizer_->vocab_size());
  const auto [train, validation, test] = sizes_;
  require<DataError>(0 <= train && train <= num_tokens_ && 0 <= validation && validation <= num_tokens_ && 0 <= test &&
                         train + validation == num_tokens_ - test,
                     "{} has {} tokens, but splits of {}, {} and {}", name_, num_tokens_, train, validation, test);
}

void TokenFile::require_unchanged() const {
  const FileStamp now = disk_.stamp();
  if (now == stamp_) return;
  const std::optional<FileStamp> at_path = stamp_at(absolute_path_);
  const bool replaced = at_path && (at_path->device != now.device || at_path->inode != now.inode);
  const char* what = replaced                          ? "another file has its name now"
                     : now.bytes != stamp_.bytes       ? "it has another size"
                     : now.modified != stamp_.modified ? "it was written to"
                                                       : nullptr;
  require<DataError>(what == nullptr, kChangedText, name_, what);
  // Apparently only the name or the permissions changed; but programs can reset the modification time, so verify again.
  stamp_ = now;
  for (BlockState& state : states_) state = std::min(state, BlockState::verified);
}

void TokenFile::read_from_disk(int64_t first, std::span<int32_t> tokens) const {
  while (!tokens.empty()) {
    const int64_t chunk = first / chunk_tokens_, in_chunk = first % chunk_tokens_;
    const auto count = std::min(static_cast<int64_t>(tokens.size()), chunk_tokens_ - in_chunk);
    const int64_t offset = chunk_offsets_[chunk] + in_chunk * bytes_of(type_);
    if (type_ == Hdf5Type::u16) {
      read_as<uint16_t>(disk_, offset, tokens.first(count));
    } else {
      read_as<uint32_t>(disk_, offset, tokens.first(count));
    }
    first += count;
    tokens = tokens.subspan(count);
  }
}

std::vector<int32_t> TokenFile::read_verified(int64_t block) const {
  std::vector<int32_t> tokens(std::min(kBlockTokens, num_tokens_ - block * kBlockTokens));
  read_from_disk(block * kBlockTokens, tokens);
  if (checksum_of_block(tokens) != block_checksums_[block] || !inside(tokens, tokenizer_->vocab_size())) {
    require_unchanged();
    require<DataError>(states_[block] == BlockState::unread, kChangedText, name_, "its tokens are not what they were");
    throw DataError(
        fmt::format("{} is damaged: its tokens from {} on are not what was written", name_, block * kBlockTokens));
  }
  const int64_t age = now_in_nanoseconds() - std::max(stamp_.modified, stamp_.changed);
  states_[block] = age > kCoarsestTime ? BlockState::trusted : BlockState::verified;
  return tokens;
}

void TokenFile::read(int64_t first, std::span<int32_t> tokens) const {
  require_range(first, tokens);
  const std::lock_guard lock(mutex_);
  require_unchanged();
  const bool verifies = num_reads_++ % kReadsToVerify == 0;
  const int64_t end = first + static_cast<int64_t>(tokens.size());
  for (int64_t next = first; next < end;) {
    const int64_t block = next / kBlockTokens, count = std::min(end, (block + 1) * kBlockTokens) - next;
    const std::span<int32_t> part = tokens.subspan(next - first, count);
    if (verifies || states_[block] != BlockState::trusted) {
      const std::vector<int32_t> whole = read_verified(block);
      std::copy_n(whole.begin() + next % kBlockTokens, count, part.begin());
    } else {
      read_from_disk(next, part);
    }
    next += count;
  }
  require_unchanged();
  require<DataError>(inside(tokens, tokenizer_->vocab_size()), kChangedText, name_, "a token is not in its vocabulary");
}

void TokenFile::verify(const Progress& progress) const {
  for (int64_t block = 0; block < static_cast<int64_t>(block_checksums_.size()); ++block) {
    const std::lock_guard lock(mutex_);
    require_unchanged();
    read_verified(block);
    const int64_t done = std::min((block + 1) * kBlockTokens, num_tokens_);
    if (progress) progress("checking", done * bytes_of(type_), num_tokens_ * bytes_of(type_));
  }
}

TokenFileWriter::TokenFileWriter(const std::string& path, const Tokenizer& tokenizer, int64_t most_tokens,
                                 std::string name)
    : path_(path),
      name_(std::move(name)),
      tokenizer_(tokenizer),
      file_(create_with_tokenizer(path, name_, tokenizer)),
      tokens_(file_.create_dataset("tokens", tokenizer.vocab_size() <= 65536 ? Hdf5Type::u16 : Hdf5Type::u32,
                                   chunk_tokens(most_tokens))) {
  block_.reserve(kBlockTokens);
}

void TokenFileWriter::append(std::span<const int32_t> tokens) {
  require<ValueError>(inside(tokens, tokenizer_.vocab_size()), "append: a token is outside the vocabulary of {}",
                      tokenizer_.vocab_size());
  num_tokens_ += static_cast<int64_t>(tokens.size());
  while (!tokens.empty()) {
    const auto free = static_cast<size_t>(kBlockTokens) - block_.size();
    const std::span<const int32_t> part = tokens.first(std::min(free, tokens.size()));
    block_.insert(block_.end(), part.begin(), part.end());
    tokens = tokens.subspan(part.size());
    if (static_cast<int64_t>(block_.size()) == kBlockTokens) write_block();
  }
}

void TokenFileWriter::write_block() {
  append_tokens(tokens_, block_);
  block_checksums_.push_back(checksum_of_block(block_));
  block_.clear();
}

std::vector<FileRange> TokenFileWriter::token_ranges() const {
  const int64_t base = address_base(file_, kSealBlockBytes);
  const int64_t chunk_bytes = tokens_.chunk_elements() * bytes_of(tokens_.type());
  std::vector<FileRange> ranges;
  for (const int64_t address : tokens_.chunk_addresses()) {
    ranges.push_back({base + address, base + address + chunk_bytes});
  }
  std::sort(ranges.begin(), ranges.end(), [](const FileRange& a, const FileRange& b) { return a.begin < b.begin; });
  return ranges;
}

void TokenFileWriter::finish(const SplitSizes& sizes, const Provenance& provenance) {
  if (!block_.empty()) write_block();
  require<ValueError>(sizes.total() == num_tokens_, "finish: splits of {} tokens, there are {}", sizes.total(),
                      num_tokens_);
  write_all(file_, "block_checksum", Hdf5Type::u64, std::span<const uint64_t>(block_checksums_));
  file_.write_attribute("vocab_size", tokenizer_.vocab_size());
  file_.write_attribute("tokenizer_kind", std::string(tokenizer_name(tokenizer_.kind())));
  file_.write_attribute("train_tokens", sizes.train);
  file_.write_attribute("validation_tokens", sizes.validation);
  file_.write_attribute("test_tokens", sizes.test);
  file_.write_attribute("source_name", provenance.source_name);
  file_.write_attribute("source_bytes", provenance.source_bytes);
  file_.write_attribute("source_checksum", provenance.source_checksum);
  file_.write_attribute("source_changes", provenance.source_changes);
  file_.write_attribute("written_by", provenance.written_by);
  const std::vector<FileRange> ranges = token_ranges();
  tokens_.close();
  file_.close();
  PosixFile file(path_, PosixFile::Access::read_write, name_);
  write_checksum_block(file, kSeal.magic, ranges);
}

}  // namespace heed::data
