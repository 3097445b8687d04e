#include "data/hdf5_call.hpp"

#include <hdf5.h>

namespace heed::data {

namespace {

std::recursive_mutex& mutex() {
  static std::recursive_mutex instance;
  return instance;
}

}  // namespace

// The error output is a setting of the thread.
Hdf5Call::Hdf5Call() : lock_(mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

}  // namespace heed::data
