// A file that appears whole or not at all: it is written under another name in the same folder and renamed at the end.
#pragma once

#include <string>

namespace heed::data {

class NewFile {
 public:
  // Creates an empty temporary file beside path. Throws DataError naming it and the reason.
  explicit NewFile(std::string path);
  // Removes the temporary file, if commit() has not been.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::string& temporary_path() const { return temporary_path_; }

  // Brings the file to the disk, gives it its name, and brings that to the disk. Throws DataError; then the file under
  // the name, if there was one, is as before.
  void commit();

 private:
  std::string path_;
  std::string temporary_path_;
  bool committed_ = false;
};

}  // namespace heed::data
