// What all code that calls HDF5 uses: the lock and the handles; and, for checkpoints, the check of return codes.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "autograd/core/check.hpp"

namespace heed::data {

// A lock to hold during every HDF5 call in the program, since HDF5 may be built without thread safety. It is recursive:
// a function that holds it may call another one that acquires it. It also stops HDF5 from printing errors.
class Hdf5Call {
 public:
  Hdf5Call();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

// Owns one reference to an HDF5 object (a hid_t).
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(int64_t id) : id_(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Handle() { close(); }

  operator int64_t() const { return id_; }  // NOLINT(google-explicit-constructor): passed to HDF5 everywhere

  // Releases the object, as the destructor does. Closing a file writes its last bytes: returns a negative number if
  // that failed, as HDF5's functions do.
  int close();

 private:
  int64_t id_ = -1;
};

// Text from a file, made safe to print: the first 200 bytes, with all but printable ASCII escaped.
std::string hdf5_printable(std::string_view text);

// The innermost error on HDF5's error stack.
std::string hdf5_reason();

// Returns the result of an HDF5 call. Throws CheckpointError with HDF5's reason if it failed: the caller adds the name
// of the file.
template <class Result>
Result hdf5_checked(Result result, std::string_view action) {
  if (result < 0) throw CheckpointError(fmt::format("HDF5 cannot {}: {}", action, hdf5_reason()));
  return result;
}

// A property list of this class, such as H5P_FILE_ACCESS.
Hdf5Handle hdf5_properties(int64_t kind);

}  // namespace heed::data
