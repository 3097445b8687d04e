// Token file: a tokenized text on disk with its tokenizer. HDF5, with a checksum header in its user block
// (data/io/checksum_block.hpp).
//
//   dataset tokens (N)           u16, or u32 if the vocabulary has more than 65536 entries; at most 1000 HDF5 chunks
//                                up to 2.6e11 tokens
//   dataset block_checksum       u64, one per 65536 tokens, over int32 tokens (data/io/checksum.hpp)
//   dataset tokenizer            u8: Tokenizer::serialize()
//   attributes                   vocab_size tokenizer_kind
//                                train_tokens validation_tokens test_tokens (the splits are in this order)
//                                source_name source_bytes source_checksum source_changes written_by
//
// Opening verifies everything except the tokens; each block of 65536 tokens is verified when it is first read. A file
// of any size therefore opens immediately, and no corrupt token is ever used.
//
// If the file changes while it is open, the next read fails. Each read compares the size and the timestamps of the file
// with those at opening. When timestamps are not reliable, the block is verified again with the checksums from opening:
// if the file was changed less than three seconds ago (file systems have coarse timestamps), after its name or
// permissions changed, and at every 64th read.
#pragma once

#include <memory>
#include <mutex>

#include "data/io/checksum_block.hpp"
#include "data/io/hdf5_file.hpp"
#include "data/io/posix_file.hpp"
#include "data/splits.hpp"
#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"
#include "data/token_sequence.hpp"

namespace heed::data {

// Origin of the tokens.
struct Provenance {
  std::string source_name;  // of the text file, without directory
  int64_t source_bytes = 0;
  std::string source_checksum;      // XXH64 of the text, 16 hexadecimal digits
  std::string written_by;           // program and version
  std::string source_changes = {};  // differences between tokens and text bytes; empty if none
};

class TokenFile final : public TokenSequence {
 public:
  // Throws DataError with the file and the reason: missing, not a token file, truncated, corrupt, of another version.
  explicit TokenFile(const std::string& path);

  int64_t size() const override { return num_tokens_; }
  // Also throws DataError if a block of the range is corrupt, or if the file has changed since it was opened.
  void read(int64_t first, std::span<int32_t> tokens) const override;

  uint64_t checksum() const override { return checksum_of_blocks(block_checksums_); }

  // Verifies every block; reports progress in bytes on disk.
  void verify(const Progress& progress = {}) const;

  const std::string& name() const { return name_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const SplitSizes& sizes() const { return sizes_; }
  const Provenance& provenance() const { return provenance_; }
  Hdf5Type type() const { return type_; }

 private:
  enum class BlockState : uint8_t { unread, verified, trusted };  // trusted: timestamps reveal any change

  void load(const Hdf5File& file, int64_t seal_bytes);
  void require_consistent(int64_t vocab_size) const;
  void require_unchanged() const;
  void read_from_disk(int64_t first, std::span<int32_t> tokens) const;
  std::vector<int32_t> read_verified(int64_t block) const;

  std::string name_;
  std::string absolute_path_;
  PosixFile disk_;
  mutable FileStamp stamp_;
  Hdf5Type type_ = Hdf5Type::u16;
  int64_t num_tokens_ = 0;
  int64_t chunk_tokens_ = 0;
  std::vector<int64_t> chunk_offsets_;  // in bytes from the beginning of the file
  std::shared_ptr<const Tokenizer> tokenizer_;
  SplitSizes sizes_;
  Provenance provenance_;
  std::vector<uint64_t> block_checksums_;
  mutable std::mutex mutex_;  // guards the mutable members
  mutable std::vector<BlockState> states_;
  mutable uint64_t num_reads_ = 0;
};

// Writes a token file sequentially. The file is complete after finish() and must not be used before.
class TokenFileWriter {
 public:
  // Keeps a reference to the tokenizer. most_tokens: expected maximum, which sets the HDF5 chunk size; more tokens may
  // be appended. name: of the file in error messages. All functions throw DataError if the file cannot be written.
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer, int64_t most_tokens, std::string name);
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer, int64_t most_tokens)
      : TokenFileWriter(path, tokenizer, most_tokens, quoted_path(path)) {}

  // Throws ValueError for an id outside the vocabulary.
  void append(std::span<const int32_t> tokens);

  int64_t size() const { return num_tokens_; }

  // Throws ValueError unless the sizes add up to size().
  void finish(const SplitSizes& sizes, const Provenance& provenance);

 private:
  void write_block();
  std::vector<FileRange> token_ranges() const;

  std::string path_;
  std::string name_;
  const Tokenizer& tokenizer_;
  Hdf5File file_;
  Hdf5Dataset tokens_;
  int64_t num_tokens_ = 0;
  std::vector<int32_t> block_;
  std::vector<uint64_t> block_checksums_;
};

}  // namespace heed::data
