// Checkpoints that a program other than heed has changed, with a first block that fits.
#pragma once

#include <hdf5.h>

#include "data/io/hdf5_handle.hpp"
#include "tests/train/checkpoint/checkpoint_samples.hpp"

namespace heed::test {

using data::hdf5_checked, data::hdf5_properties, data::Hdf5Handle;

class Hdf5ImageTest : public testing::Test {
 protected:
  // The sample, changed by a program that knows HDF5 and gives the file a block that fits.
  template <class Change>
  void change(Change run) {
    train::save_checkpoint(path_, sample_content());
    {
      const data::Hdf5Call call;
      const Hdf5Handle file(hdf5_checked(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open"));
      run(file);
    }
    const std::string bytes = read_file(path_);
    write_file(path_, sealed(bytes));
  }

  template <class Change>
  void expect_refused_after(Change run, const std::string& reason) {
    change(run);
    ASSERT_EQ(train::verify_checkpoint(path_), std::nullopt);
    const std::string error = checkpoint_error([&] { train::load_checkpoint(path_); });
    expect_text(error, "cannot read checkpoint " + path_.string() + ": ");
    expect_text(error, reason);
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "last.h5";
};

inline void remove(hid_t file, const char* name) { hdf5_checked(H5Ldelete(file, name, H5P_DEFAULT), "remove"); }

// In the place of what has this name. Only without values and with properties nothing is written.
inline void replace(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& sizes,
                    hid_t properties = H5P_DEFAULT, const void* values = nullptr) {
  if (hdf5_checked(H5Lexists(file, name, H5P_DEFAULT), "look") > 0) remove(file, name);
  const Hdf5Handle space(hdf5_checked(
      sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
      "shape"));
  const Hdf5Handle dataset(
      hdf5_checked(H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT), "make"));
  const std::vector<char> zeros(4096);
  if (values == nullptr && properties == H5P_DEFAULT) values = zeros.data();
  if (values != nullptr) hdf5_checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "write");
}

inline void make_group(hid_t file, const std::string& name) {
  const Hdf5Handle group(hdf5_checked(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "make"));
}

inline void link_again(hid_t file, const char* object, const std::string& name) {
  hdf5_checked(H5Lcreate_hard(file, object, file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT), "link");
}

}  // namespace heed::test
