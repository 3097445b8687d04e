// HDF5 files with attributes of the root group and one-dimensional extendible datasets.
//
// Return codes are checked. Errors are DataError with the file and the operation that failed; HDF5 itself prints
// nothing.
//
// Open only files that verify_checksum_block() has verified: HDF5 trusts its input. Disk space is reserved before HDF5
// writes, because HDF5 1.10 may crash when the disk is full; a full disk is therefore a DataError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/io/hdf5_handle.hpp"
#include "data/io/posix_file.hpp"

namespace heed::data {

// Element type on disk, little-endian.
enum class Hdf5Type { u8, u16, u32, u64 };

const char* hdf5_type_name(Hdf5Type type);  // "u8" …

class Hdf5Dataset {
 public:
  int64_t size() const;
  Hdf5Type type() const { return type_; }

  // T is uint8_t, uint16_t, uint32_t or uint64_t and must match the type on disk: HDF5 would convert, but short reads
  // are then ten times slower (measured). Throws ValueError for another type, and for elements outside the dataset.
  template <class T>
  void append(std::span<const T> values);
  template <class T>
  void read(int64_t first, std::span<T> values) const;

  void close() { dataset_ = Hdf5Handle(); }

  int64_t chunk_elements() const;

  // The file address of each chunk, in the order of the elements. Depending on its version, HDF5 counts addresses from
  // the first byte of the file or from the end of the user block.
  std::vector<int64_t> chunk_addresses() const;

 private:
  friend class Hdf5File;
  Hdf5Dataset(std::string where, Hdf5Handle dataset);

  std::string where_;  // `"/a/b.h5", dataset "tokens"`
  Hdf5Handle dataset_;
  Hdf5Type type_;
};

class Hdf5File {
 public:
  // Creates the file, or truncates an existing one. user_block_bytes: size of the user block, 0 or a power of two of at
  // least 512. name: the name of the file in error messages.
  static Hdf5File create(const std::string& path, int64_t user_block_bytes, const std::string& name);
  static Hdf5File create(const std::string& path) { return create(path, 0, quoted_path(path)); }
  static Hdf5File open(const std::string& path);  // read-only

  FileStamp stamp() const;  // status of the file that HDF5 has open

  // Close the datasets first. Afterwards all their elements and all attributes are in the file.
  void close();

  void write_attribute(const std::string& name, int64_t value);
  void write_attribute(const std::string& name, const std::string& value);
  bool has_attribute(const std::string& name) const;
  int64_t integer_attribute(const std::string& name) const;
  std::string text_attribute(const std::string& name) const;

  // Creates an empty, extendible dataset with chunks of chunk_elements elements.
  Hdf5Dataset create_dataset(const std::string& name, Hdf5Type type, int64_t chunk_elements);
  // Opens a dataset. Throws DataError unless it is one-dimensional, of one of `types`, chunked without filters, and
  // stored completely in this file: links to other files are not followed.
  Hdf5Dataset dataset(const std::string& name, std::initializer_list<Hdf5Type> types) const;

 private:
  Hdf5File(std::string name, Hdf5Handle file) : name_(std::move(name)), file_(std::move(file)) {}

  std::string where(const char* kind, const std::string& name) const;

  std::string name_;
  Hdf5Handle file_;
};

}  // namespace heed::data
