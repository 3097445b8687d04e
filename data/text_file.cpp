#include "data/text_file.hpp"

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

TextFile::TextFile(const std::string& path) : file_(open_text(path)), size_(file_.size()) {}

void for_each_piece(const TextFile& file, const UsePiece& use) {
  std::string text;  // begins with what the last call left
  for (int64_t offset = 0; offset < file.size();) {
    const auto kept = static_cast<int64_t>(text.size()), fresh = std::min(kPieceBytes, file.size() - offset);
    text.resize(kept + fresh);
    file.read(offset, std::span(text).subspan(kept));
    offset += fresh;
    text.erase(0, use(text, offset == file.size()));
  }
  require<ValueError>(text.empty(), "for_each_piece: {} bytes at the end were not used", text.size());
}

}  // namespace heed::data
