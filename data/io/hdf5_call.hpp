// Serialization of HDF5 calls: HDF5 may be built without thread safety.
#pragma once

#include <mutex>

namespace heed::data {

// A lock to hold during every HDF5 call in the program. It is recursive: a function that holds it may call another one
// that acquires it. It also stops HDF5 from printing errors.
class Hdf5Call {
 public:
  Hdf5Call();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace heed::data
