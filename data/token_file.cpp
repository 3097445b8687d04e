#include "data/token_file.hpp"

#include <algorithm>

namespace heed::data {

namespace {

constexpr std::string_view kMagic = "heed token file2";
static_assert(kMagic.size() == kSealMagicBytes);
constexpr int64_t kBlockTokens = kTokensPerBlock;

// Few chunks, since HDF5 1.10 goes through all of them to say where one stands; whole blocks, so that a block is read
// from one chunk. HDF5 takes chunks below 4 GiB.
int64_t chunk_tokens(int64_t most_tokens) {
  constexpr int64_t kMostChunks = 1000, kMostBlocks = 4096;
  const int64_t blocks = most_tokens / (kMostChunks * kBlockTokens) + 1;
  return std::min(blocks, kMostBlocks) * kBlockTokens;
}

bool inside(std::span<const int32_t> tokens, int64_t vocab_size) {
  return std::all_of(tokens.begin(), tokens.end(), [&](int32_t id) { return 0 <= id && id < vocab_size; });
}

// HDF5 gets and gives the elements as they are on disk.
template <class T>
void read_as(const Hdf5Dataset& dataset, int64_t first, std::span<int32_t> tokens) {
  std::vector<T> values(tokens.size());
  dataset.read(first, std::span(values));
  std::transform(values.begin(), values.end(), tokens.begin(), [](T value) { return static_cast<int32_t>(value); });
}

void read_tokens(const Hdf5Dataset& dataset, int64_t first, std::span<int32_t> tokens) {
  if (dataset.type() == Hdf5Type::u16) {
    read_as<uint16_t>(dataset, first, tokens);
  } else {
    read_as<uint32_t>(dataset, first, tokens);
  }
}

void append_tokens(Hdf5Dataset& dataset, std::span<const int32_t> tokens) {
  if (dataset.type() == Hdf5Type::u16) {
    dataset.append(std::span<const uint16_t>(std::vector<uint16_t>(tokens.begin(), tokens.end())));
  } else {
    dataset.append(std::span<const uint32_t>(std::vector<uint32_t>(tokens.begin(), tokens.end())));
  }
}

Hdf5File open_sealed(const std::string& path) {
  check_seal(path, kMagic, "token file of heed");
  return Hdf5File::open(path);
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
      on_disk_(path, PosixFile::Access::read),
      bytes_on_disk_(on_disk_.size()),
      file_(open_sealed(path)),
      tokens_(file_.dataset("tokens", {Hdf5Type::u16, Hdf5Type::u32})),
      num_tokens_(tokens_.size()),
      tokenizer_(read_tokenizer(file_, name_)),
      sizes_{file_.integer_attribute("train_tokens"), file_.integer_attribute("validation_tokens"),
             file_.integer_attribute("test_tokens")},
      provenance_{file_.text_attribute("source_name"), file_.integer_attribute("source_bytes"),
                  file_.text_attribute("source_checksum"), file_.text_attribute("written_by")},
      block_checksums_(read_all<uint64_t>(file_.dataset("block_checksum", {Hdf5Type::u64}))),
      verified_(block_checksums_.size()) {
  const auto num_blocks = static_cast<int64_t>(block_checksums_.size());
  require<DataError>(num_blocks == (num_tokens_ + kBlockTokens - 1) / kBlockTokens,
                     "{} has {} tokens, but checksums of {} blocks", name_, num_tokens_, num_blocks);
  require<DataError>(file_.integer_attribute("vocab_size") == tokenizer_->vocab_size(),
                     "{} has vocab_size {}, but a tokenizer of {} tokens", name_, file_.integer_attribute("vocab_size"),
                     tokenizer_->vocab_size());
  const auto [train, validation, test] = sizes_;
  require<DataError>(0 <= train && train <= num_tokens_ && 0 <= validation && validation <= num_tokens_ && 0 <= test &&
                         train + validation == num_tokens_ - test,
                     "{} has {} tokens, but splits of {}, {} and {}", name_, num_tokens_, train, validation, test);
}

void TokenFile::verify_block(int64_t block) const {
  std::vector<int32_t> tokens(std::min(kBlockTokens, num_tokens_ - block * kBlockTokens));
  read_tokens(tokens_, block * kBlockTokens, tokens);
  require<DataError>(checksum_of_block(tokens) == block_checksums_[block] && inside(tokens, tokenizer_->vocab_size()),
                     "{} is damaged: its tokens from {} on are not what was written", name_, block * kBlockTokens);
  verified_[block] = true;
}

void TokenFile::read(int64_t first, std::span<int32_t> tokens) const {
  require_range(first, tokens);
  if (tokens.empty()) return;
  const std::lock_guard lock(mutex_);
  const int64_t last = first + static_cast<int64_t>(tokens.size()) - 1;
  for (int64_t block = first / kBlockTokens; block <= last / kBlockTokens; ++block) {
    if (!verified_[block]) verify_block(block);
  }
  read_tokens(tokens_, first, tokens);
  require<DataError>(inside(tokens, tokenizer_->vocab_size()) && on_disk_.size() == bytes_on_disk_,
                     "{} has changed since it was opened", name_);
}

void TokenFile::verify(const Progress& progress) const {
  const int64_t bytes_per_token = type() == Hdf5Type::u16 ? 2 : 4;
  for (int64_t block = 0; block < static_cast<int64_t>(block_checksums_.size()); ++block) {
    const std::lock_guard lock(mutex_);
    verify_block(block);
    const int64_t done = std::min((block + 1) * kBlockTokens, num_tokens_);
    if (progress) progress("checking", done * bytes_per_token, num_tokens_ * bytes_per_token);
  }
}

TokenFileWriter::TokenFileWriter(const std::string& path, const Tokenizer& tokenizer, int64_t most_tokens)
    : path_(path),
      tokenizer_(tokenizer),
      file_(Hdf5File::create(path)),
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

void TokenFileWriter::finish(const SplitSizes& sizes, const Provenance& provenance) {
  if (!block_.empty()) write_block();
  require<ValueError>(sizes.total() == num_tokens_, "finish: splits of {} tokens, there are {}", sizes.total(),
                      num_tokens_);
  const std::string tokenizer = tokenizer_.serialize();
  write_all(file_, "tokenizer", Hdf5Type::u8,
            std::span(reinterpret_cast<const uint8_t*>(tokenizer.data()), tokenizer.size()));
  write_all(file_, "block_checksum", Hdf5Type::u64, std::span<const uint64_t>(block_checksums_));
  file_.write_attribute("vocab_size", tokenizer_.vocab_size());
  file_.write_attribute("tokenizer_kind", std::string(tokenizer_name(tokenizer_.kind())));
  file_.write_attribute("train_tokens", sizes.train);
  file_.write_attribute("validation_tokens", sizes.validation);
  file_.write_attribute("test_tokens", sizes.test);
  file_.write_attribute("source_name", provenance.source_name);
  file_.write_attribute("source_bytes", provenance.source_bytes);
  file_.write_attribute("source_checksum", provenance.source_checksum);
  file_.write_attribute("written_by", provenance.written_by);
  const std::vector<FileRange> token_ranges = tokens_.ranges();
  tokens_.close();
  file_.close();
  seal_file(path_, kMagic, token_ranges);
}

}  // namespace heed::data
