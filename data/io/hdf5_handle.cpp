#include "data/io/hdf5_handle.hpp"

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

int Hdf5Handle::close() {
  if (id_ < 0) return 0;
  const Hdf5Call call;
  return H5Idec_ref(std::exchange(id_, -1));
}

std::string hdf5_printable(std::string_view text) {
  constexpr size_t kShown = 200;
  std::string shown;
  for (const char c : text.substr(0, kShown)) {
    shown += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  }
  return text.size() > kShown ? shown + "..." : shown;
}

std::string hdf5_reason() {
  const auto keep_first = [](unsigned number, const H5E_error2_t* error, void* reason) -> herr_t {
    if (number == 0 && error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
    return 0;
  };
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  return hdf5_printable(reason);
}

Hdf5Handle hdf5_properties(int64_t kind) { return Hdf5Handle(hdf5_checked(H5Pcreate(kind), "make a property list")); }

}  // namespace heed::data
