// HDF5 files whose block fits but whose content is not what heed writes: others wrote them, or removed something.
#include "train/hdf5_image.hpp"

#include <numeric>

#include "data/hdf5_call.hpp"
#include "tests/train/checkpoint_samples.hpp"
#include "train/hdf5_handle.hpp"

namespace heed::train {
namespace {

using namespace test;
using hdf5::checked;
using hdf5::Handle;

class Hdf5ImageTest : public testing::Test {
 protected:
  // The sample, changed by a program that knows HDF5 and gives the file a block that fits.
  template <class Change>
  void change(Change run) {
    save_checkpoint(path_, sample_content());
    {
      const data::Hdf5Call call;
      const Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open");
      run(file);
    }
    const std::string bytes = read_file(path_);
    write_file(path_, sealed(bytes));
  }

  template <class Change>
  void expect_refused_after(Change run, const std::string& reason) {
    change(run);
    ASSERT_EQ(verify_checkpoint(path_), std::nullopt);
    const std::string error = checkpoint_error([&] { load_checkpoint(path_); });
    expect_text(error, "cannot read checkpoint " + path_.string() + ": ");
    expect_text(error, reason);
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "last.h5";
};

void remove(hid_t file, const char* name) { checked(H5Ldelete(file, name, H5P_DEFAULT), "remove"); }

// In the place of what has this name.
void replace(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& sizes,
             hid_t properties = H5P_DEFAULT) {
  if (checked(H5Lexists(file, name, H5P_DEFAULT), "look") > 0) remove(file, name);
  const Handle space(
      sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
      H5Sclose, "shape");
  const Handle dataset(H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose, "make");
  const std::vector<char> zeros(4096);
  if (properties == H5P_DEFAULT) {
    checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), "write");
  }
}

TEST_F(Hdf5ImageTest, ADatasetThatWasRemovedIsNamed) {
  change([](hid_t file) { remove(file, "tensors/parameters/blocks.0.norm.weight"); });
  const CheckpointContent loaded = load_checkpoint(path_);
  EXPECT_EQ(loaded.tensors.size(), sample_content().tensors.size() - 1);
  EXPECT_EQ(checkpoint_error([&] { loaded.tensor("parameters/blocks.0.norm.weight", DType::f32, {2}); }),
            "checkpoint " + path_.string() + ": dataset tensors/parameters/blocks.0.norm.weight is missing");
}

TEST_F(Hdf5ImageTest, AGroupThatWasRemovedIsNamed) {
  for (const char* name : {"tensors", "integers", "reals", "texts"}) {
    expect_refused_after([&](hid_t file) { remove(file, name); }, std::string("group ") + name + " is missing");
  }
}

TEST_F(Hdf5ImageTest, ElementsOfAnotherType) {
  expect_refused_after(
      [](hid_t file) { replace(file, "tensors/ids", H5T_STD_I16LE, {2}); },
      "dataset tensors/ids: its elements are of HDF5 class 0 with 2 bytes, they must be f32, f64, i32");
  expect_refused_after([](hid_t file) { replace(file, "tensors/odd", H5T_IEEE_F32BE, {3}); }, "little-endian");
  expect_refused_after([](hid_t file) { replace(file, "integers/step", H5T_STD_I32LE, {}); },
                       "dataset integers/step: its elements are of HDF5 class 0 with 4 bytes, they must be i64");
  expect_refused_after([](hid_t file) { replace(file, "reals/nan", H5T_IEEE_F32LE, {}); }, "they must be f64");
  expect_refused_after([](hid_t file) { replace(file, "texts/config", H5T_STD_I8LE, {4}); }, "they must be u8");
}

TEST_F(Hdf5ImageTest, AnotherShape) {
  expect_refused_after(
      [](hid_t file) {
        replace(file, "tensors/odd", H5T_IEEE_F32LE, {1, 1, 1, 1, 1, 2});
      },
      "dataset tensors/odd: it has 6 dimensions, at most 5 are allowed");
  expect_refused_after([](hid_t file) { replace(file, "integers/step", H5T_STD_I64LE, {1}); },
                       "dataset integers/step: it has shape (1), it must have 0 dimensions");
  expect_refused_after(
      [](hid_t file) {
        replace(file, "texts/config", H5T_STD_U8LE, {2, 2});
      },
      "dataset texts/config: it has shape (2, 2), it must have 1 dimensions");
}

// Small files that stand for much memory: the elements are not there.
TEST_F(Hdf5ImageTest, ElementsThatAreNotStored) {
  const Handle chunked = hdf5::make_properties(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {1000, 1000};
  H5Pset_chunk(chunked, 2, chunk);
  expect_refused_after(
      [&](hid_t file) {
        replace(file, "tensors/odd", H5T_IEEE_F32LE, {1'000'000, 1'000'000}, chunked);
      },
      "its shape (1000000, 1000000) takes 4000000000000 bytes, 0 are stored");
  expect_refused_after(
      [&](hid_t file) {
        replace(file, "tensors/odd", H5T_IEEE_F32LE, {hsize_t{1} << 40, hsize_t{1} << 40}, chunked);
      },
      "does not fit into 63 bits");
}

TEST_F(Hdf5ImageTest, WhatIsNeitherGroupNorDataset) {
  expect_refused_after(
      [](hid_t file) {
        const Handle type(H5Tcopy(H5T_STD_I32LE), H5Tclose, "copy");
        checked(H5Tcommit2(file, "tensors/kind", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "add a type");
      },
      "tensors/kind is neither group nor dataset");
  expect_refused_after(
      [](hid_t file) { checked(H5Lcreate_soft("/nowhere", file, "reals/gone", H5P_DEFAULT, H5P_DEFAULT), "link"); },
      "HDF5 cannot open reals/gone: ");
}

TEST_F(Hdf5ImageTest, AGroupThatLeadsBackToItself) {
  expect_refused_after(
      [](hid_t file) {
        checked(H5Lcreate_hard(file, "tensors", file, "tensors/all", H5P_DEFAULT, H5P_DEFAULT), "link");
      },
      "is too long");
}

}  // namespace
}  // namespace heed::train
