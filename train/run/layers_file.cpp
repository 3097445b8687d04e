#include "train/run/layers_file.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

// The header and the rows of the steps up to `step`. Text after them may be truncated by a kill.
std::string text_until(const fs::path& path, int64_t step) {
  if (!fs::exists(fs::symlink_status(path))) return std::string(kLayersHeader);
  std::string text;
  try {
    const data::PosixFile file(path.string(), data::PosixFile::Access::read);
    text.resize(static_cast<size_t>(file.size()));
    file.read(0, text);
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("{}; move it away and a new one is started", error.what()));
  }
  require<CheckpointError>(text.starts_with(kLayersHeader),
                           "{} does not begin with the line {}; move it away and a new one is started",
                           data::quoted_path(path.string()), kLayersHeader.substr(0, kLayersHeader.size() - 1));
  size_t end = kLayersHeader.size();
  for (size_t next; (next = text.find('\n', end)) != std::string::npos; end = next + 1) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(text.data() + end, text.data() + next, number);
    if (error != std::errc() || *stop != ',' || number > step) break;
  }
  text.resize(end);
  return text;
}

}  // namespace

LayersFile::LayersFile(const fs::path& path, std::optional<int64_t> resumed_step) : path_(path) {
  const std::string text = text_until(path, resumed_step.value_or(0));
  try {
    data::write_file_durably(path, text);
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
  file_ = std::fopen(path_.c_str(), "ae");
  if (file_ == nullptr) fail();
}

LayersFile::~LayersFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void LayersFile::write(int64_t step, const std::vector<ParameterNorms>& layers) {
  std::string text;
  for (const ParameterNorms& layer : layers) {
    text += fmt::format("{},{},{:.9g},{:.9g},{:.9g}\n", step, layer.layer, layer.weight, layer.grad, layer.update);
  }
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) fail();
}

void LayersFile::fail() const {
  throw CheckpointError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace heed::train
