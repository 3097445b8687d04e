// HDF5 may be built without threads in mind.
#pragma once

#include <mutex>

namespace heed::data {

// Held during every call of HDF5 in the whole program, also where the holder calls what makes another one. Keeps HDF5
// from printing errors.
class Hdf5Call {
 public:
  Hdf5Call();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace heed::data
