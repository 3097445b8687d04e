// Checkpoints made to do harm: they point at other files, ask for endless work or much memory, or carry names that a
// terminal would act on. Each is refused, and no message holds a byte of another file.
#include <chrono>

#include "tests/train/checkpoint/hdf5_change.hpp"

namespace heed::train {
namespace {

using namespace test;

extern "C" uint32_t H5_checksum_metadata(const void* bytes, size_t count, uint32_t start);  // HDF5's own

// Gives every object header (HDF5 File Format Specification, version 2) a checksum that fits.
std::string with_object_checksums(std::string bytes) {
  for (size_t start = 0; (start = bytes.find("OHDR", start)) != std::string::npos; ++start) {
    const auto flags = static_cast<uint8_t>(bytes[start + 5]);
    const size_t width = size_t{1} << (flags & 3),
                 size_at = start + 6 + ((flags & 16) != 0 ? 4 : 0) + ((flags & 32) != 0 ? 16 : 0);
    uint64_t size = 0;
    std::memcpy(&size, &bytes[size_at], width);
    const size_t end = size_at + width + size;
    const uint32_t sum = H5_checksum_metadata(&bytes[start], end - start, 0);
    std::memcpy(&bytes[end], &sum, sizeof(sum));
  }
  return bytes;
}

class Hdf5HostileTest : public Hdf5ImageTest {};

class ForeignElements : public Hdf5ImageTest {
 protected:
  ForeignElements() {
    write_file(secret_, std::string(kSecret) + std::string(4096, '!'));
    const Hdf5Handle file(hdf5_checked(H5Fcreate(other_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "make"));
    replace(file, "secret", H5T_STD_U8LE, {4}, H5P_DEFAULT, kSecret.data());
    replace(file, "step", H5T_STD_I64LE, {}, H5P_DEFAULT, kSecret.data());
    for (const char* name : {"tensors", "texts"}) {
      const Hdf5Handle group(hdf5_checked(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "make"));
    }
  }

  template <class Change>
  void expect_kept_secret(Change run, const std::string& reason) {
    expect_refused_after(run, reason);
    const std::string error = checkpoint_error([&] { load_checkpoint(path_); });
    EXPECT_EQ(error.find(kSecret), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }

  static constexpr std::string_view kSecret = "password=swordfish";
  const std::filesystem::path secret_ = folder_.path() / "secret.txt", other_ = folder_.path() / "other.h5";
};

TEST_F(ForeignElements, ExternalFiles) {
  struct Place {
    const char* name;
    hid_t type;
    std::vector<hsize_t> sizes;
  };
  for (const Place& place : {Place{"texts/config", H5T_STD_U8LE, {18}}, Place{"tensors/odd", H5T_IEEE_F32LE, {3}},
                             Place{"integers/step", H5T_STD_I64LE, {}}, Place{"reals/nan", H5T_IEEE_F64LE, {}}}) {
    const Hdf5Handle external = hdf5_properties(H5P_DATASET_CREATE);
    H5Pset_external(external, secret_.c_str(), 0, H5F_UNLIMITED);
    expect_kept_secret([&](hid_t file) { replace(file, place.name, place.type, place.sizes, external); },
                       fmt::format("dataset {}: its elements are in other files", place.name));
  }
}

TEST_F(ForeignElements, VirtualDatasets) {
  const hsize_t size = 4, unlimited = H5S_UNLIMITED;
  const Hdf5Handle four(hdf5_checked(H5Screate_simple(1, &size, nullptr), "shape"));
  const Hdf5Handle any(hdf5_checked(H5Screate_simple(1, &size, &unlimited), "shape"));
  const hsize_t first = 0, step = 1;
  H5Sselect_hyperslab(any, H5S_SELECT_SET, &first, &step, &unlimited, nullptr);
  for (const hid_t space : {hid_t{four}, hid_t{any}}) {
    const Hdf5Handle virtual_layout = hdf5_properties(H5P_DATASET_CREATE);
    hdf5_checked(H5Pset_virtual(virtual_layout, space, other_.c_str(), "secret", space), "map");
    expect_kept_secret(
        [&](hid_t file) {
          remove(file, "texts/config");
          const Hdf5Handle dataset(hdf5_checked(
              H5Dcreate2(file, "texts/config", H5T_STD_U8LE, space, H5P_DEFAULT, virtual_layout, H5P_DEFAULT), "make"));
        },
        "dataset texts/config: its elements are those of other datasets, they must be contiguous or compact");
  }
}

TEST_F(ForeignElements, ChunksAndFilters) {
  const hsize_t chunk = 2;
  const Hdf5Handle chunked = hdf5_properties(H5P_DATASET_CREATE);
  H5Pset_chunk(chunked, 1, &chunk);
  const float values[3] = {1, 2, 3};
  expect_refused_after([&](hid_t file) { replace(file, "tensors/odd", H5T_IEEE_F32LE, {3}, chunked, values); },
                       "dataset tensors/odd: its elements are chunked, they must be contiguous or compact");
  H5Pset_fletcher32(chunked);
  expect_refused_after([&](hid_t file) { replace(file, "tensors/odd", H5T_IEEE_F32LE, {3}, chunked, values); },
                       "dataset tensors/odd: its elements are chunked");
}

TEST_F(ForeignElements, CompactElementsAreInTheFile) {
  const Hdf5Handle compact = hdf5_properties(H5P_DATASET_CREATE);
  H5Pset_layout(compact, H5D_COMPACT);
  const std::string text = "compact";
  change([&](hid_t file) { replace(file, "texts/config", H5T_STD_U8LE, {7}, compact, text.data()); });
  EXPECT_EQ(load_checkpoint(path_).text("config"), "compact");
}

// In every group and in the place of a group.
TEST_F(ForeignElements, Links) {
  for (const char* name : {"texts/config", "integers/step", "tensors/parameters/odd", "tensors", "texts"}) {
    const auto in_its_place = [&](auto link) {
      return [&, link](hid_t file) {
        if (H5Lexists(file, name, H5P_DEFAULT) > 0) remove(file, name);
        link(file);
      };
    };
    expect_kept_secret(in_its_place([&](hid_t file) {
                         hdf5_checked(H5Lcreate_soft("/reals/nan", file, name, H5P_DEFAULT, H5P_DEFAULT), "link");
                       }),
                       std::string(name) + " is a soft link, a checkpoint has hard links only");
    for (const char* target : {"secret", "step", "tensors", "texts"}) {
      expect_kept_secret(
          in_its_place([&](hid_t file) {
            hdf5_checked(H5Lcreate_external(other_.c_str(), target, file, name, H5P_DEFAULT, H5P_DEFAULT), "link");
          }),
          std::string(name) + " is a link to another file, a checkpoint has hard links only");
    }
    H5L_class_t kind{};
    kind.version = H5L_LINK_CLASS_T_VERS;
    kind.id = static_cast<H5L_type_t>(200);
    kind.trav_func = [](const char*, hid_t group, const void*, size_t, hid_t, hid_t) -> hid_t {
      return H5Oopen(group, "/reals/nan", H5P_DEFAULT);
    };
    hdf5_checked(H5Lregister(&kind), "register");
    expect_kept_secret(in_its_place([&](hid_t file) {
                         hdf5_checked(H5Lcreate_ud(file, name, kind.id, "x", 1, H5P_DEFAULT, H5P_DEFAULT), "link");
                       }),
                       std::string(name) + " is a user-defined link, a checkpoint has hard links only");
    hdf5_checked(H5Lunregister(kind.id), "forget");
  }
}

// Three small datasets that claim to be as large as a fourth and to have their elements where it has them.
TEST_F(Hdf5HostileTest, DatasetsThatShareTheirElements) {
  constexpr uint64_t kLarge = 100'003;
  std::vector<std::pair<uint64_t, uint64_t>> numbers;  // each to be replaced by the other
  change([&](hid_t file) {
    const auto place = [&](const char* name) {
      const Hdf5Handle dataset(hdf5_checked(H5Dopen2(file, name, H5P_DEFAULT), "open"));
      return H5Dget_offset(dataset) - kBlockBytes;
    };
    replace(file, "tensors/large", H5T_STD_U8LE, {1});
    const std::vector<float> values(kLarge);
    replace(file, "tensors/large", H5T_IEEE_F32LE, {kLarge}, H5P_DEFAULT, values.data());
    for (const hsize_t size : {337, 339, 341}) {
      const std::string name = fmt::format("tensors/small.{}", size);
      replace(file, name.c_str(), H5T_IEEE_F32LE, {size});
      numbers.insert(numbers.end(),
                     {{size, kLarge}, {size * 4, kLarge * 4}, {place(name.c_str()), place("tensors/large")}});
    }
  });
  EXPECT_EQ(checkpoint_error([&] { load_checkpoint(path_); }), "no error");
  std::string bytes = read_file(path_);
  for (const auto& [from, to] : numbers) {
    const std::string before(reinterpret_cast<const char*>(&from), 8), after(reinterpret_cast<const char*>(&to), 8);
    const size_t found = bytes.find(before);
    ASSERT_NE(found, std::string::npos) << from;
    for (size_t at = found; at != std::string::npos; at = bytes.find(before)) bytes.replace(at, 8, after);
  }
  write_file(path_, sealed(with_object_checksums(bytes)));
  expect_text(checkpoint_error([&] { load_checkpoint(path_); }), ": it takes 400012 bytes, the file has ");
}

TEST_F(Hdf5HostileTest, ObjectsWithTwoNames) {
  expect_refused_after([](hid_t file) { link_again(file, "tensors", "tensors/all"); },
                       "tensors/all is another name of a group or dataset that has one");
  expect_refused_after([](hid_t file) { link_again(file, "/", "tensors/all"); }, "tensors/all is another name");
  expect_refused_after([](hid_t file) { link_again(file, "tensors/odd", "tensors/parameters/z"); },
                       "tensors/parameters/z is another name");
  expect_refused_after([](hid_t file) { link_again(file, "reals/nan", "reals/z"); }, "reals/z is another name");
  expect_refused_after(
      [](hid_t file) {
        remove(file, "reals");
        link_again(file, "integers", "reals");
      },
      "reals is not a separate group");
}

// 2^40 paths lead to the last group, whatever number of links the objects claim to have.
TEST_F(Hdf5HostileTest, GroupsThatDoubleTheirPaths) {
  for (const bool claims_one_link : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    expect_refused_after(
        [&](hid_t file) {
          std::string path = "tensors";
          for (int i = 0; i < 40; ++i) {
            make_group(file, path + "/a");
            link_again(file, (path + "/a").c_str(), path + "/b");
            path += "/a";
            const Hdf5Handle group(hdf5_checked(H5Oopen(file, path.c_str(), H5P_DEFAULT), "open"));
            if (claims_one_link) hdf5_checked(H5Odecr_refcount(group), "lie");
          }
        },
        "/b is another name of a group or dataset that has one");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST_F(Hdf5HostileTest, DeepGroupsAndManyLinks) {
  expect_refused_after(
      [](hid_t file) {
        std::string path = "tensors";
        for (int i = 0; i < 500; ++i) make_group(file, path += "/g");
      },
      "is too long");
  change([](hid_t file) {
    for (int i = 0; i < 5000; ++i) make_group(file, fmt::format("tensors/{}", i));
  });
  expect_same(load_checkpoint(path_), sample_content());
}

// heed has none and reads none.
TEST_F(Hdf5HostileTest, ManyAttributesAreIgnored) {
  change([](hid_t file) {
    const Hdf5Handle space(hdf5_checked(H5Screate(H5S_SCALAR), "shape"));
    for (const char* name : {"/", "tensors", "reals/nan"}) {
      const Hdf5Handle object(hdf5_checked(H5Oopen(file, name, H5P_DEFAULT), "open"));
      for (int i = 0; i < 1500; ++i) {
        const Hdf5Handle attribute(hdf5_checked(
            H5Acreate2(object, std::to_string(i).c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), "make"));
      }
    }
  });
  expect_same(load_checkpoint(path_), sample_content());
}

// Control characters of a name would reach the terminal, and "a/b" would be followed through "a".
TEST_F(Hdf5HostileTest, NamesThatNoCheckpointHas) {
  expect_refused_after([](hid_t file) { make_group(file, "tensors/red\x1B[31m\n\xC3"); },
                       "the name tensors/red\\x1B[31m\\x0A\\xC3 is not allowed");
  expect_refused_after([](hid_t file) { make_group(file, "\x07"); }, "the name \\x07 is not allowed");
  expect_refused_after([](hid_t file) { make_group(file, "tensors/a b"); }, "the name tensors/a b is not allowed");
  expect_refused_after([](hid_t file) { make_group(file, "texts/" + std::string(30'000, '\x1B')); },
                       "\\x1B... is not allowed");
  change([](hid_t file) {
    make_group(file, "tensors/group");
    make_group(file, "tensors/group/left_right");
  });
  std::string bytes = read_file(path_);
  const size_t place = bytes.find("left_right");
  ASSERT_NE(place, std::string::npos);
  bytes[place + 4] = '/';
  write_file(path_, sealed(with_object_checksums(bytes)));
  expect_text(checkpoint_error([&] { load_checkpoint(path_); }), "the name tensors/group/left/right is not allowed");
}

}  // namespace
}  // namespace heed::train
