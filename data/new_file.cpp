#include "data/new_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "autograd/core/check.hpp"
#include "data/posix_file.hpp"

namespace heed::data {

NewFile::NewFile(std::string path)
    : path_(std::move(path)), temporary_path_(fmt::format("{}.tmp-{}", path_, getpid())) {
  ::unlink(temporary_path_.c_str());  // of a process long gone that had our number
  PosixFile(temporary_path_, PosixFile::Access::create);
}

NewFile::~NewFile() {
  if (!committed_) ::unlink(temporary_path_.c_str());
}

void NewFile::commit() {
  PosixFile(temporary_path_, PosixFile::Access::read_write).sync();
  require<DataError>(std::rename(temporary_path_.c_str(), path_.c_str()) == 0, "{} cannot be renamed to {}: {}",
                     quoted_path(temporary_path_), quoted_path(path_), std::strerror(errno));
  committed_ = true;
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems cannot sync a folder; the file itself is safe by now.
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

}  // namespace heed::data
