// Thin wrapper of the HDF5 C API for hdf5_image_write.cpp and hdf5_image_read.cpp: calls that throw, RAII handles, and
// the element types of a checkpoint.
#pragma once

#include <hdf5.h>

#include <string>
#include <string_view>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/core/dtype.hpp"

namespace heed::train::hdf5 {

// HDF5 checks whether a file of this name exists before it accepts an image for it; this one can never exist.
inline constexpr const char* kNoFile = "/dev/null/checkpoint";
inline constexpr size_t kMemoryStep = size_t{64} << 10;

// Text from a file, made safe to print: the first 200 bytes, with all but printable ASCII escaped.
inline std::string escaped(std::string_view text) {
  constexpr size_t kShown = 200;
  std::string shown;
  for (const char c : text.substr(0, kShown)) {
    shown += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  }
  return text.size() > kShown ? shown + "..." : shown;
}

// The innermost error on HDF5's error stack.
inline std::string reason_noted() {
  const auto keep_first = [](unsigned number, const H5E_error2_t* error, void* reason) -> herr_t {
    if (number == 0 && error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
    return 0;
  };
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  return escaped(reason);
}

// Throws CheckpointError with HDF5's reason if an HDF5 call has failed.
template <class Result>
Result checked(Result result, std::string_view action) {
  if (result < 0) throw CheckpointError(fmt::format("HDF5 cannot {}: {}", action, reason_noted()));
  return result;
}

class Handle {
 public:
  Handle(hid_t id, herr_t (*close_id)(hid_t), std::string_view action)
      : id_(checked(id, action)), close_id_(close_id) {}
  ~Handle() {
    if (id_ >= 0) close_id_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void close(std::string_view action) { checked(close_id_(std::exchange(id_, -1)), action); }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): passed to HDF5 everywhere

 private:
  hid_t id_;
  herr_t (*close_id_)(hid_t);
};

inline Handle make_properties(hid_t kind) { return {H5Pcreate(kind), H5Pclose, "make a property list"}; }

struct ElementType {
  hid_t stored, in_memory;
  std::string_view name;
};
// Functions, because HDF5 assigns the ids of its types at run time.
inline ElementType f32_type() { return {H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, "f32"}; }
inline ElementType f64_type() { return {H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, "f64"}; }
inline ElementType i32_type() { return {H5T_STD_I32LE, H5T_NATIVE_INT32, "i32"}; }
inline ElementType i64_type() { return {H5T_STD_I64LE, H5T_NATIVE_INT64, "i64"}; }
inline ElementType u8_type() { return {H5T_STD_U8LE, H5T_NATIVE_UINT8, "u8"}; }

inline ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return f32_type();
    case DType::f64:
      return f64_type();
    case DType::i32:
      return i32_type();
    case DType::bf16:
      break;
  }
  throw DTypeError(fmt::format("a {} tensor cannot be stored in a checkpoint", dtype));
}

}  // namespace heed::train::hdf5
