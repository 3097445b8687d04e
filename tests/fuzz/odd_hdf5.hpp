// HDF5 files whose parts are as they should be or, where the input of a fuzz target says so, missing or something else.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "data/io/hdf5_handle.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace heed::test {

using data::hdf5_checked, data::hdf5_properties, data::Hdf5Handle;

class OddHdf5File {
 public:
  // Takes a byte of the input for each part and some for each odd one; 0 is as it should be.
  OddHdf5File(const std::string& path, Bytes& bytes, hsize_t user_block_bytes = 0)
      : bytes_(bytes), file_(hdf5_checked(make(path, user_block_bytes), "make it")) {}

  // A dataset of one dimension, in chunks.
  void add(const char* name, hid_t type, hid_t type_in_memory, const void* data, hsize_t count) {
    const uint8_t odd = bytes_.number();
    if (odd == 1) return;
    const std::array<hid_t, 6> types{H5T_STD_U8LE,   H5T_STD_I16LE, H5T_STD_U32LE,
                                     H5T_IEEE_F64LE, H5T_STD_U16BE, H5T_C_S1};
    if (odd == 2) type = types[bytes_.number() % types.size()];
    const std::array<hsize_t, 2> more{count, 1 + bytes_.number() % 3u};
    const hsize_t huge = hsize_t{1} << (bytes_.number() % 62), none = 0;
    const std::array<hsize_t, 2> unlimited{H5S_UNLIMITED, H5S_UNLIMITED};
    const bool is_flat = odd == 4 || odd == 6 || odd == 7;
    const hsize_t* const most = is_flat ? nullptr : unlimited.data();
    const Hdf5Handle space(hdf5_checked(odd == 3   ? H5Screate_simple(2, more.data(), most)
                                        : odd == 4 ? H5Screate(bytes_.number() % 2 == 0 ? H5S_SCALAR : H5S_NULL)
                                        : odd == 5 ? H5Screate_simple(1, &huge, most)
                                        : odd == 6 ? H5Screate_simple(1, &none, most)
                                                   : H5Screate_simple(1, &count, most),
                                        "make a shape"));
    const Hdf5Handle layout = hdf5_properties(H5P_DATASET_CREATE);
    const std::array<hsize_t, 2> chunk{512u << bytes_.number() % 8, 1};
    if (!is_flat) H5Pset_chunk(layout, odd == 3 ? 2 : 1, chunk.data());
    const hid_t dataset = H5Dcreate2(file_, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
    if (dataset < 0) return;
    // Only what has all its elements can be written.
    if (odd == 0 || odd == 2 || odd >= 7) H5Dwrite(dataset, type_in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(dataset);
  }

  void add_attribute(const char* name, int64_t value) {
    const uint8_t odd = bytes_.number();
    if (odd == 1) return add_text(name, bytes_.text(), false);
    if (odd == 2) value = bytes_.number() - 128;
    if (odd == 3) value = INT64_MAX - bytes_.number();
    if (odd == 4) value = INT64_MIN + bytes_.number();
    const std::array<hid_t, 3> types{H5T_STD_U8LE, H5T_STD_U64LE, H5T_IEEE_F64LE};
    const hid_t type = odd == 5 ? types[bytes_.number() % types.size()] : H5T_STD_I64LE;
    const hsize_t count = 2;
    const Hdf5Handle space(
        hdf5_checked(odd == 6 ? H5Screate_simple(1, &count, nullptr) : H5Screate(H5S_SCALAR), "make a shape"));
    const std::array<int64_t, 2> values{value, value};
    if (odd != 7) add_attribute(name, type, space, H5T_NATIVE_INT64, values.data());
  }

  void add_attribute(const char* name) {
    const uint8_t odd = bytes_.number();
    if (odd == 1) return;
    if (odd == 2) return add_attribute(name, int64_t{1});
    if (odd == 3) return add_text(name, std::string(60'000 + 40 * bytes_.number(), 'x'), false);
    add_text(name, odd == 0 ? "text" : bytes_.text(), odd == 4);
  }

  void close() { hdf5_checked(file_.close(), "complete the file"); }

 private:
  static hid_t make(const std::string& path, hsize_t user_block_bytes) {
    const Hdf5Handle properties = hdf5_properties(H5P_FILE_CREATE);
    H5Pset_userblock(properties, user_block_bytes);
    return H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties, H5P_DEFAULT);
  }

  void add_attribute(const char* name, hid_t type, hid_t space, hid_t type_in_memory, const void* value) {
    const hid_t attribute = H5Acreate2(file_, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0) return;
    H5Awrite(attribute, type_in_memory, value);
    H5Aclose(attribute);
  }

  void add_text(const char* name, const std::string& text, bool of_variable_length) {
    const Hdf5Handle type(hdf5_checked(H5Tcopy(H5T_C_S1), "make a type"));
    H5Tset_size(type, of_variable_length ? H5T_VARIABLE : std::max<size_t>(text.size(), 1));
    const Hdf5Handle space(hdf5_checked(H5Screate(H5S_SCALAR), "make a shape"));
    const char* bytes = text.c_str();
    add_attribute(name, type, space, type, of_variable_length ? static_cast<const void*>(&bytes) : bytes);
  }

  data::Hdf5Call call_;
  Bytes& bytes_;
  Hdf5Handle file_;
};

}  // namespace heed::test
