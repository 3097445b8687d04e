// The element types of a checkpoint, and what hdf5_image_write.cpp and hdf5_image_read.cpp share.
#pragma once

#include <hdf5.h>

#include <string_view>

#include "autograd/core/check.hpp"
#include "autograd/core/dtype.hpp"

namespace heed::train::hdf5 {

// HDF5 checks whether a file of this name exists before it accepts an image for it; this one can never exist.
inline constexpr const char* kNoFile = "/dev/null/checkpoint";
inline constexpr size_t kMemoryStep = size_t{64} << 10;

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
