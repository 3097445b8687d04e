#include "data/file_seal.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/core/check.hpp"
#include "data/checksum.hpp"
#include "data/posix_file.hpp"

namespace heed::data {

namespace {

struct Footer {
  char magic[kSealMagicBytes] = {};
  uint64_t body_bytes = 0;
  uint64_t num_ranges = 0;
  uint64_t body_checksum = 0;
  uint64_t table_checksum = 0;
  uint64_t zero = 0;
  uint64_t footer_checksum = 0;
};
static_assert(sizeof(Footer) == 64 && sizeof(FileRange) == 16);

constexpr int64_t kFooterBytes = sizeof(Footer);

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string_view bytes_of(const std::vector<FileRange>& ranges) {
  return {reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(FileRange)};
}

uint64_t checksum_of(const Footer& footer) {
  return checksum(bytes_of(footer).substr(0, kFooterBytes - sizeof(uint64_t)));
}

bool fit(const std::vector<FileRange>& ranges, int64_t body_bytes) {
  int64_t end = 0;
  for (const FileRange& range : ranges) {
    if (range.begin < end || range.end < range.begin) return false;
    end = range.end;
  }
  return end <= body_bytes;
}

uint64_t checksum_outside(const PosixFile& file, int64_t body_bytes, const std::vector<FileRange>& ranges) {
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
  int64_t offset = 0;
  for (const FileRange& range : ranges) {
    add(offset, range.begin);
    offset = range.end;
  }
  add(offset, body_bytes);
  return sum.value();
}

}  // namespace

void seal_file(const std::string& path, std::string_view magic, const std::vector<FileRange>& left_out) {
  PosixFile file(path, PosixFile::Access::read_write);
  const int64_t body_bytes = file.size();
  require<ValueError>(magic.size() == kSealMagicBytes && fit(left_out, body_bytes),
                      "seal_file: a magic of {} bytes, or ranges that do not fit in {} bytes", magic.size(),
                      body_bytes);
  Footer footer;
  std::memcpy(footer.magic, magic.data(), magic.size());
  footer.body_bytes = static_cast<uint64_t>(body_bytes);
  footer.num_ranges = left_out.size();
  footer.body_checksum = checksum_outside(file, body_bytes, left_out);
  footer.table_checksum = checksum(bytes_of(left_out));
  footer.footer_checksum = checksum_of(footer);
  const std::string seal = std::string(bytes_of(left_out)) + std::string(bytes_of(footer));
  file.write(body_bytes, seal);
  file.truncate(body_bytes + static_cast<int64_t>(seal.size()));
}

void check_seal(const std::string& path, std::string_view magic, const char* kind) {
  const PosixFile file(path, PosixFile::Access::read);
  const int64_t size = file.size();
  Footer footer;
  if (size >= kFooterBytes) file.read(size - kFooterBytes, std::span(reinterpret_cast<char*>(&footer), sizeof(footer)));
  const std::string_view found(footer.magic, kSealMagicBytes), name = magic.substr(0, kSealMagicBytes - 1);
  require<DataError>(found.starts_with(name), "{} is no {}, or its end is missing or damaged", file.name(), kind);
  require<DataError>(found == magic,
                     "{} is a {} of another version, which this one cannot read: make it again with heed data prepare",
                     file.name(), kind);
  const auto require_intact = [&](bool intact, const char* part) {
    require<DataError>(intact, "{} is a damaged {}: its {} is not what was written", file.name(), kind, part);
  };
  require_intact(footer.footer_checksum == checksum_of(footer), "footer");
  const auto file_size = static_cast<uint64_t>(size), table_limit = file_size / sizeof(FileRange);
  require_intact(footer.body_bytes <= file_size && footer.num_ranges <= table_limit &&
                     footer.body_bytes + footer.num_ranges * sizeof(FileRange) + kFooterBytes == file_size,
                 "length");
  std::vector<FileRange> ranges(footer.num_ranges);
  const auto body_bytes = static_cast<int64_t>(footer.body_bytes);
  file.read(body_bytes, std::span(reinterpret_cast<char*>(ranges.data()), ranges.size() * sizeof(FileRange)));
  require_intact(footer.table_checksum == checksum(bytes_of(ranges)) && fit(ranges, body_bytes), "table");
  require_intact(footer.body_checksum == checksum_outside(file, body_bytes, ranges), "content");
}

}  // namespace heed::data
