#include "data/io/hdf5_call.hpp"

#include <hdf5.h>

namespace heed::data {

namespace {

std::recursive_mutex& mutex() {
  static std::recursive_mutex instance;
  return instance;
}

}  // namespace

// The error output is a per-thread setting, so each call sets it.
Hdf5Call::Hdf5Call() : lock_(mutex()) {
  // Every HDF5 object is closed by its owner. HDF5's own cleanup at exit crashes (1.10) if closing a file has failed.
  static const herr_t without_cleanup = H5dont_atexit();
  static_cast<void>(without_cleanup);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

}  // namespace heed::data
