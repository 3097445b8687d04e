#include "data/io/checksum_block.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"

namespace heed::data {

namespace {

struct Header {
  char magic[kSealMagicBytes] = {};
  uint64_t num_bytes = 0;  // size of the file; of the body in version 2
  uint64_t num_ranges = 0;
  uint64_t body_checksum = 0;
  uint64_t table_checksum = 0;
  uint64_t zero = 0;
  uint64_t header_checksum = 0;
};
static_assert(sizeof(Header) == 64 && sizeof(FileRange) == 16);

constexpr int64_t kHeaderBytes = sizeof(Header), kTableBytes = kSealBlockBytes - kHeaderBytes;

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string_view bytes_of(const std::vector<FileRange>& ranges) {
  return {reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(FileRange)};
}

uint64_t checksum_of(const Header& header) {
  return checksum(bytes_of(header).substr(0, kHeaderBytes - sizeof(uint64_t)));
}

bool fit(const std::vector<FileRange>& ranges, int64_t body_begin, int64_t body_end) {
  int64_t end = body_begin;
  for (const FileRange& range : ranges) {
    if (range.begin < end || range.end < range.begin) return false;
    end = range.end;
  }
  return end <= body_end;
}

std::vector<FileRange> joined(const std::vector<FileRange>& ranges) {
  std::vector<FileRange> result;
  for (const FileRange& range : ranges) {
    if (!result.empty() && result.back().end == range.begin) {
      result.back().end = range.end;
    } else {
      result.push_back(range);
    }
  }
  return result;
}

uint64_t checksum_outside(const PosixFile& file, FileRange body, const std::vector<FileRange>& ranges) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::string piece;
  Checksum sum;
  const auto add = [&](int64_t begin, int64_t end) {
    for (int64_t offset = begin; offset < end; offset += kPieceBytes) {
      piece.resize(std::min(kPieceBytes, end - offset));
      file.read(offset, piece);
      sum.update(piece.data(), static_cast<int64_t>(piece.size()));
    }
  };
  int64_t offset = body.begin;
  for (const FileRange& range : ranges) {
    add(offset, range.begin);
    offset = range.end;
  }
  add(offset, body.end);
  return sum.value();
}

Header read_header(const PosixFile& file, int64_t offset) {
  Header header;
  file.read(offset, std::span(reinterpret_cast<char*>(&header), sizeof(header)));
  return header;
}

std::string_view magic_of(const Header& header) { return {header.magic, kSealMagicBytes}; }

bool is_named(const Header& header, std::string_view magic) {
  return magic_of(header).starts_with(magic.substr(0, kSealMagicBytes - 1));
}

void require_intact(bool intact, const PosixFile& file, const SealKind& kind, const char* part) {
  require<DataError>(intact, "{} is a damaged {}: its {} is not what was written", file.name(), kind.name, part);
}

void require_version(const Header& header, std::string_view magic, const PosixFile& file, const SealKind& kind) {
  require<DataError>(
      magic_of(header) == magic,
      "{} is a {} of a format version that this heed cannot read: create it again with heed data prepare", file.name(),
      kind.name);
}

// table: the ranges and the zeros after them.
void check(const PosixFile& file, const SealKind& kind, const Header& header, const std::string& table,
           FileRange body) {
  require_intact(header.table_checksum == checksum(table), file, kind, "list of ranges");
  std::vector<FileRange> ranges(header.num_ranges);
  if (!ranges.empty()) std::memcpy(ranges.data(), table.data(), ranges.size() * sizeof(FileRange));
  const bool ends_in_zeros = std::all_of(table.begin() + static_cast<int64_t>(bytes_of(ranges).size()), table.end(),
                                         [](char c) { return c == '\0'; });
  require_intact(fit(ranges, body.begin, body.end) && ends_in_zeros, file, kind, "list of ranges");
  require_intact(header.body_checksum == checksum_outside(file, body, ranges), file, kind, "content");
}

void check_block(const PosixFile& file, const SealKind& kind, const Header& header) {
  require_version(header, kind.magic, file, kind);
  require_intact(header.header_checksum == checksum_of(header) && header.zero == 0, file, kind, "header");
  const int64_t size = file.size();
  require<DataError>(header.num_bytes == static_cast<uint64_t>(size),
                     "{} is a damaged {}: it has {} bytes, {} were written", file.name(), kind.name, size,
                     header.num_bytes);
  require_intact(size >= kSealBlockBytes && header.num_ranges <= kTableBytes / sizeof(FileRange), file, kind, "header");
  std::string table(kTableBytes, '\0');
  file.read(kHeaderBytes, table);
  check(file, kind, header, table, {kSealBlockBytes, size});
}

void check_footer(const PosixFile& file, const SealKind& kind, const Header& footer) {
  require_version(footer, kind.footer_magic, file, kind);
  require_intact(footer.header_checksum == checksum_of(footer), file, kind, "footer");
  const auto size = static_cast<uint64_t>(file.size());
  require_intact(footer.num_bytes <= size && footer.num_ranges <= size / sizeof(FileRange) &&
                     footer.num_bytes + footer.num_ranges * sizeof(FileRange) + kHeaderBytes == size,
                 file, kind, "length");
  std::string table(footer.num_ranges * sizeof(FileRange), '\0');
  file.read(static_cast<int64_t>(footer.num_bytes), table);
  check(file, kind, footer, table, {0, static_cast<int64_t>(footer.num_bytes)});
}

// Whether it is an HDF5 file with the dataset names of a token file; without a checksum block, it must be version 2.
bool has_lost_its_footer(const PosixFile& file) {
  std::string start(std::min<int64_t>(file.size(), kSealBlockBytes), '\0');
  file.read(0, start);
  return start.starts_with("\x89HDF\r\n\x1a\n") && start.find("block_checksum") != std::string::npos &&
         start.find("tokenizer") != std::string::npos;
}

}  // namespace

void write_checksum_block(PosixFile& file, std::string_view magic, const std::vector<FileRange>& left_out) {
  const int64_t size = file.size();
  require<ValueError>(
      magic.size() == kSealMagicBytes && size >= kSealBlockBytes && fit(left_out, kSealBlockBytes, size),
      "write_checksum_block: a magic of {} bytes, or ranges that do not fit in {} bytes", magic.size(), size);
  const std::vector<FileRange> ranges = joined(left_out);
  std::string table(bytes_of(ranges));
  require<DataError>(static_cast<int64_t>(table.size()) <= kTableBytes,
                     "{} is in {} pieces on disk, at most {} are possible: split the text", file.name(), ranges.size(),
                     kTableBytes / static_cast<int64_t>(sizeof(FileRange)));
  table.resize(kTableBytes, '\0');
  Header header;
  std::memcpy(header.magic, magic.data(), magic.size());
  header.num_bytes = static_cast<uint64_t>(size);
  header.num_ranges = ranges.size();
  header.body_checksum = checksum_outside(file, {kSealBlockBytes, size}, ranges);
  header.table_checksum = checksum(table);
  header.header_checksum = checksum_of(header);
  file.write(0, std::string(bytes_of(header)) + table);
  file.truncate(size);
}

int64_t verify_checksum_block(const PosixFile& file, const SealKind& kind) {
  const int64_t size = file.size();
  if (size >= kHeaderBytes) {
    const Header header = read_header(file, 0), footer = read_header(file, size - kHeaderBytes);
    if (is_named(header, kind.magic)) {
      check_block(file, kind, header);
      return kSealBlockBytes;
    }
    if (is_named(footer, kind.footer_magic)) {
      check_footer(file, kind, footer);
      return 0;
    }
    require<DataError>(
        !has_lost_its_footer(file),
        "{} is a {} of an earlier version that has lost the checksums at its end: another program opened "
        "it for writing (h5py in mode \"r+\" cuts them off) or it is not whole; make it again with heed "
        "data prepare",
        file.name(), kind.name);
  }
  throw DataError(fmt::format("{} is not a {}, or it is truncated or damaged", file.name(), kind.name));
}

}  // namespace heed::data
