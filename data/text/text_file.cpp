#include "data/text/text_file.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

PosixFile open_text(const std::string& path) {
  require<DataError>(!path.empty(), "data.path is empty, it must name a text file");
  try {
    return PosixFile(path, PosixFile::Access::read);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}; data.path must name a text file", error.what()));
  }
}

}  // namespace

TextFile::TextFile(const std::string& path) : file_(open_text(path)), stamp_(file_.stamp()) {}

void TextFile::require_unchanged() const {
  const FileStamp now = file_.stamp();
  require<DataError>(now.bytes > stamp_.bytes || (now.bytes == stamp_.bytes && now.modified == stamp_.modified),
                     "{} changed while it was read: try again when it is whole", name());
}

std::string for_each_chunk(const TextFile& file, TextForm form, const UsePiece& use) {
  TextNormalizer normalizer(form);
  std::string fresh, text;  // text begins with the bytes that the last call of `use` left
  for (int64_t offset = 0; offset < file.size();) {
    fresh.resize(std::min(kPieceBytes, file.size() - offset));
    file.read(offset, fresh);
    offset += static_cast<int64_t>(fresh.size());
    const bool is_last = offset == file.size();
    normalizer.add(fresh, is_last, text);
    text.erase(0, use({text, fresh, is_last, offset}));
  }
  require<ValueError>(text.empty(), "for_each_chunk: {} bytes at the end were not used", text.size());
  file.require_unchanged();
  return normalizer.changes();
}

}  // namespace heed::data
