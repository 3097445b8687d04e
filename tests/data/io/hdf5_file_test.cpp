#include "data/io/hdf5_file.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>

#include "data/io/hdf5_handle.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

// A dataset may be larger than the file that it is in, since elements that were not written take no room.
TEST(Hdf5File, ElementsThatAreNotInTheFileAreRefusedBeforeAnyMemoryIsTaken) {
  const ScratchFolder folder;
  const std::string path = folder.path("large.h5");
  {
    Hdf5File file = Hdf5File::create(path);
    file.create_dataset("bytes", Hdf5Type::u8, 10).append(std::span<const uint8_t>(std::vector<uint8_t>(25, 1)));
    file.close();
  }
  EXPECT_EQ(Hdf5File::open(path).dataset("bytes", {Hdf5Type::u8}).size(), 25);
  {
    const Hdf5Call call;
    const Hdf5Handle file(hdf5_checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open it"));
    const Hdf5Handle dataset(hdf5_checked(H5Dopen2(file, "bytes", H5P_DEFAULT), "open its dataset"));
    const hsize_t size = hsize_t{1} << 45;
    hdf5_checked(H5Dset_extent(dataset, &size), "grow");
  }
  EXPECT_TRUE(contains(error_text<DataError>([&] { Hdf5File::open(path).dataset("bytes", {Hdf5Type::u8}); }),
                       {path, "bytes", "35184372088832 elements", "only 30 bytes"}));
}

TEST(Hdf5File, ElementsOfAnotherTypeAreRefused) {
  const ScratchFolder folder;
  const std::string path = folder.path("types.h5");
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset("words", Hdf5Type::u16, 10);
  file.close();
  EXPECT_EQ(Hdf5File::open(path).dataset("words", {Hdf5Type::u8, Hdf5Type::u16}).type(), Hdf5Type::u16);
  EXPECT_TRUE(contains(error_text<DataError>([&] {
                         Hdf5File::open(path).dataset("words", {Hdf5Type::u8, Hdf5Type::u64});
                       }),
                       {path, "words", "type u16", "u8 or u64"}));
}

}  // namespace
}  // namespace heed::data
