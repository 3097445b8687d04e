// Token files: a tokenized text on disk, with its tokenizer; HDF5 behind a block of checksums (data/io/file_seal.hpp).
//
//   dataset tokens (N)           u16, or u32 where the vocabulary has more than 65536 entries; at most 1000 chunks
//   dataset block_checksum       u64: of each 65536 tokens, as int32 (data/io/checksum.hpp)
//   dataset tokenizer            u8: Tokenizer::serialize()
//   attributes                   vocab_size tokenizer_kind
//                                train_tokens validation_tokens test_tokens (they follow each other in this order)
//                                source_name source_bytes source_checksum source_changes written_by
//
// All but the tokens is verified when the file is opened, and each block of tokens when it is first read, so that a
// file of any size opens at once and no damaged token is ever used.
//
// A file that changes while it is open is refused at the next read. Each read compares the file's size and times with
// those at opening. Where times cannot tell, the block is verified again, by the checksums read at opening: while the
// file was changed less than three seconds ago (the times of file systems are coarse), after its name or rights
// changed, and at every 64th read.
#pragma once

#include <memory>
#include <mutex>

#include "data/io/file_seal.hpp"
#include "data/io/hdf5_file.hpp"
#include "data/io/posix_file.hpp"
#include "data/splits.hpp"
#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"
#include "data/token_sequence.hpp"

namespace heed::data {

// Where the tokens come from.
struct Provenance {
  std::string source_name;  // of the text file, without folder
  int64_t source_bytes = 0;
  std::string source_checksum;      // of the text, 16 hexadecimal digits
  std::string written_by;           // program and version
  std::string source_changes = {};  // how its tokens differ from the bytes of the text; empty: they are the same
};

class TokenFile final : public TokenSequence {
 public:
  // Throws DataError naming the file and what is wrong: not there, no token file, cut off, damaged, of another version.
  explicit TokenFile(const std::string& path);

  int64_t size() const override { return num_tokens_; }
  // Also throws DataError if one of the blocks read is damaged, or the file has changed since it was opened.
  void read(int64_t first, std::span<int32_t> tokens) const override;

  uint64_t checksum() const override { return checksum_of_blocks(block_checksums_); }

  // Checks every block; reports bytes on disk.
  void verify(const Progress& progress = {}) const;

  const std::string& name() const { return name_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const SplitSizes& sizes() const { return sizes_; }
  const Provenance& provenance() const { return provenance_; }
  Hdf5Type type() const { return type_; }

 private:
  enum class BlockState : uint8_t { unread, verified, trusted };  // trusted: the file's times tell when it changes

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
  std::vector<int64_t> chunk_offsets_;  // from the beginning of the file
  std::shared_ptr<const Tokenizer> tokenizer_;
  SplitSizes sizes_;
  Provenance provenance_;
  std::vector<uint64_t> block_checksums_;
  mutable std::mutex mutex_;  // guards what is mutable
  mutable std::vector<BlockState> states_;
  mutable uint64_t num_reads_ = 0;
};

// Writes one in order of its tokens. The file is complete after finish(), and not to be used before.
class TokenFileWriter {
 public:
  // Keeps a reference to the tokenizer. most_tokens: chunks are made for so many; more may be appended, too. name: what
  // error texts call the file. Throws DataError if the file cannot be written, as all functions do.
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer, int64_t most_tokens, std::string name);
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer, int64_t most_tokens)
      : TokenFileWriter(path, tokenizer, most_tokens, quoted_path(path)) {}

  // Throws ValueError for an id outside the vocabulary.
  void append(std::span<const int32_t> tokens);

  int64_t size() const { return num_tokens_; }

  // sizes must add up to size().
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
