// HDF5 files whose block fits but whose content is not what heed writes: others wrote them, or removed something.
#include "train/checkpoint/hdf5_image.hpp"

#include "tests/train/checkpoint/hdf5_change.hpp"

namespace heed::train {
namespace {

using namespace test;

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
  const Hdf5Handle unwritten = hdf5_properties(H5P_DATASET_CREATE);
  expect_refused_after(
      [&](hid_t file) {
        replace(file, "tensors/odd", H5T_IEEE_F32LE, {1'000'000, 1'000'000}, unwritten);
      },
      "dataset tensors/odd: its shape (1000000, 1000000) takes 4000000000000 bytes, 0 are stored");
  expect_refused_after([&](hid_t file) { replace(file, "reals/nan", H5T_IEEE_F64LE, {}, unwritten); },
                       "dataset reals/nan: its shape () takes 8 bytes, 0 are stored");
}

TEST_F(Hdf5ImageTest, WhatIsNeitherGroupNorDataset) {
  expect_refused_after(
      [](hid_t file) {
        const Hdf5Handle type(hdf5_checked(H5Tcopy(H5T_STD_I32LE), "copy"));
        hdf5_checked(H5Tcommit2(file, "tensors/kind", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "add a type");
      },
      "tensors/kind is neither group nor dataset");
  expect_refused_after([](hid_t file) { replace(file, "more", H5T_STD_I64LE, {}); },
                       "more is unknown, a checkpoint has tensors, integers, reals and texts");
  expect_refused_after([](hid_t file) { replace(file, "reals", H5T_STD_I64LE, {}); }, "reals is not a separate group");
}

}  // namespace
}  // namespace heed::train
