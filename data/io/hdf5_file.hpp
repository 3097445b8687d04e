// HDF5 files: attributes of the root, and one-dimensional datasets that grow. Only this, data/io/hdf5_call.cpp and
// train/checkpoint/hdf5_handle.hpp know HDF5's headers.
//
// Every return code is checked; errors are DataError naming the file and what was not possible, and HDF5 prints nothing
// itself.
//
// Open only files that check_seal() has passed: HDF5 trusts what it reads. Writing reserves disk space before HDF5
// writes, since HDF5 1.10 may crash when the disk is full: the error then comes from here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/io/posix_file.hpp"

namespace heed::data {

// Of elements on disk, little-endian.
enum class Hdf5Type { u8, u16, u32, u64 };

const char* hdf5_type_name(Hdf5Type type);  // "u8" …

// An object that HDF5 counts references of.
class Hdf5Id {
 public:
  Hdf5Id() = default;
  explicit Hdf5Id(int64_t id) : id_(id) {}
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Id();

  int64_t get() const { return id_; }
  // As the destructor does, and tells whether it worked: a file writes its last bytes when it is closed.
  bool close();

 private:
  int64_t id_ = -1;
};

class Hdf5Dataset {
 public:
  int64_t size() const;
  Hdf5Type type() const { return type_; }

  // T: uint8_t, uint16_t, uint32_t or uint64_t, and just the type on disk: HDF5 would convert, but reads short pieces
  // ten times slower then (measured). Throws ValueError for another one, and for elements outside the dataset.
  template <class T>
  void append(std::span<const T> values);
  template <class T>
  void read(int64_t first, std::span<T> values) const;

  void close() { dataset_ = Hdf5Id(); }

  int64_t chunk_elements() const;

  // Of each chunk, in the order of the elements: where it is in the file. HDF5 counts from the first byte of the file
  // or from the end of its user block: that depends on the version of HDF5.
  std::vector<int64_t> chunk_addresses() const;

 private:
  friend class Hdf5File;
  Hdf5Dataset(std::string where, Hdf5Id dataset);

  std::string where_;  // `"/a/b.h5", dataset "tokens"`
  Hdf5Id dataset_;
  Hdf5Type type_;
};

class Hdf5File {
 public:
  // Begins again in an existing file, or makes one. user_block_bytes: left free at the beginning, 0 or a power of two
  // of at least 512. name: what error texts call the file.
  static Hdf5File create(const std::string& path, int64_t user_block_bytes, const std::string& name);
  static Hdf5File create(const std::string& path) { return create(path, 0, quoted_path(path)); }
  static Hdf5File open(const std::string& path);  // to read

  FileStamp stamp() const;  // of the file that HDF5 has open

  // Datasets must be closed before; what they and the attributes hold is in the file after this.
  void close();

  void write_attribute(const std::string& name, int64_t value);
  void write_attribute(const std::string& name, const std::string& value);
  bool has_attribute(const std::string& name) const;
  int64_t integer_attribute(const std::string& name) const;
  std::string text_attribute(const std::string& name) const;

  // Empty, stored in chunks of chunk_elements.
  Hdf5Dataset create_dataset(const std::string& name, Hdf5Type type, int64_t chunk_elements);
  // Throws DataError unless it is one-dimensional, of one of these types, stored in chunks without filters, and all its
  // elements are in this file: a link to another file is not followed.
  Hdf5Dataset dataset(const std::string& name, std::initializer_list<Hdf5Type> types) const;

 private:
  Hdf5File(std::string name, Hdf5Id file) : name_(std::move(name)), file_(std::move(file)) {}

  std::string where(const char* kind, const std::string& name) const;

  std::string name_;
  Hdf5Id file_;
};

}  // namespace heed::data
