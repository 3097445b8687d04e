#include <array>
#include <functional>
#include <new>
#include <vector>

#include "data/hdf5_call.hpp"
#include "train/hdf5_handle.hpp"
#include "train/hdf5_image.hpp"

namespace heed::train {
namespace hdf5 {
namespace {

// HDF5 would copy the image twice; these hand it the one that is there. It is only read, so it never grows.
H5FD_file_image_callbacks_t lend_image(std::string_view& image) {
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = [](size_t size, H5FD_file_image_op_t, void* lent) -> void* {
    const std::string_view bytes = *static_cast<std::string_view*>(lent);
    return size == bytes.size() ? const_cast<char*>(bytes.data()) : nullptr;
  };
  callbacks.image_memcpy = [](void* to, const void* from, size_t, H5FD_file_image_op_t, void*) -> void* {
    return to == from ? to : nullptr;
  };
  callbacks.image_realloc = [](void*, size_t, H5FD_file_image_op_t, void*) -> void* { return nullptr; };
  callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
  callbacks.udata_copy = [](void* lent) { return lent; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = &image;
  return callbacks;
}

Handle open_image(std::string_view& image) {
  const Handle access = make_properties(H5P_FILE_ACCESS);
  H5FD_file_image_callbacks_t callbacks = lend_image(image);
  checked(H5Pset_fapl_core(access, kMemoryStep, false), "keep a file in memory");
  checked(H5Pset_file_image_callbacks(access, &callbacks), "take a file in memory");
  checked(H5Pset_file_image(access, const_cast<char*>(image.data()), image.size()), "take a file in memory");
  return {H5Fopen(kNoFile, H5F_ACC_RDONLY, access), H5Fclose, "open it"};
}

std::vector<std::string> link_names(hid_t group, const std::string& path) {
  const auto add_name = [](hid_t, const char* name, const H5L_info_t*, void* names) -> herr_t {
    try {
      static_cast<std::vector<std::string>*>(names)->emplace_back(name);
      return 0;
    } catch (const std::bad_alloc&) {
      return -1;
    }
  };
  std::vector<std::string> names;
  checked(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_name, &names), "list group " + path);
  return names;
}

// A dataset as it was opened, its errors without its name.
class Dataset {
 public:
  explicit Dataset(hid_t id) : id_(id) {
    const Handle space(H5Dget_space(id_), H5Sclose, "tell its shape");
    const int rank = checked(H5Sget_simple_extent_ndims(space), "tell its number of dimensions");
    require<CheckpointError>(H5Sget_simple_extent_type(space) != H5S_NULL, "it has no shape");
    require<CheckpointError>(rank <= Shape::kMaxRank, "it has {} dimensions, at most {} are allowed", rank,
                             Shape::kMaxRank);
    std::array<hsize_t, Shape::kMaxRank> sizes{};
    checked(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), "tell its shape");
    for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
      shape_ = shape_.with_appended(static_cast<int64_t>(sizes[i]));
    }
  }

  const Shape& shape() const { return shape_; }

  void require_rank(int rank) const {
    require<CheckpointError>(shape_.rank() == rank, "it has shape {}, it must have {} dimensions", shape_, rank);
  }

  // Which of these types its elements have.
  size_t find_type(const std::vector<ElementType>& allowed) const {
    const Handle type(H5Dget_type(id_), H5Tclose, "tell its type");
    std::string names;
    for (size_t i = 0; i < allowed.size(); ++i) {
      if (checked(H5Tequal(type, allowed[i].stored), "compare its type") > 0) return i;
      names += (i == 0 ? "" : ", ") + std::string(allowed[i].name);
    }
    throw CheckpointError(fmt::format("its elements are of HDF5 class {} with {} bytes, they must be {}, little-endian",
                                      static_cast<int>(H5Tget_class(type)), H5Tget_size(type), names));
  }

  // Throws where the elements are not all in an image of this size; to be called before memory is taken for them.
  void require_stored(const ElementType& type, int64_t image_bytes) const {
    const int64_t bytes = checked_multiply(shape_.numel(), static_cast<int64_t>(H5Tget_size(type.stored)));
    const auto stored = static_cast<int64_t>(H5Dget_storage_size(id_));
    require<CheckpointError>(stored == bytes && bytes <= image_bytes, "its shape {} takes {} bytes, {} are stored",
                             shape_, bytes, stored);
  }

  void read(const ElementType& type, void* to) const {
    if (shape_.numel() == 0) return;
    checked(H5Dread(id_, type.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to), "read it");
  }

 private:
  hid_t id_;
  Shape shape_;
};

using ReadDataset = std::function<void(const std::string& name, const Dataset& dataset)>;

void read_dataset(hid_t id, const std::string& path, const std::string& name, const ReadDataset& read) {
  try {
    read(name, Dataset(id));
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(fmt::format("dataset {}: {}", path, error.what()));
  }
}

// Reads every dataset of a group and of the groups in it; a name begins behind `name_start` characters of the path.
void read_group(hid_t file, const std::string& path, size_t name_start, const ReadDataset& read) {
  const Handle group(H5Gopen2(file, path.c_str(), H5P_DEFAULT), H5Gclose, "open group " + path);
  for (const std::string& link : link_names(group, path)) {
    const std::string inner = fmt::format("{}/{}", path, link);
    // Also ends a chain of groups that leads back to itself.
    require<CheckpointError>(inner.size() - name_start <= kMaxNameLength, "the name of {} is too long", inner);
    const Handle object(H5Oopen(group, link.c_str(), H5P_DEFAULT), H5Oclose, "open " + inner);
    const H5I_type_t kind = H5Iget_type(object);
    require<CheckpointError>(kind == H5I_GROUP || kind == H5I_DATASET, "{} is neither group nor dataset", inner);
    if (kind == H5I_GROUP) {
      read_group(file, inner, name_start, read);
    } else {
      read_dataset(object, inner, inner.substr(name_start), read);
    }
  }
}

void read_top_group(hid_t file, const std::string& path, const ReadDataset& read) {
  const bool exists = checked(H5Lexists(file, path.c_str(), H5P_DEFAULT), "look for group " + path) > 0;
  require<CheckpointError>(exists, "group {} is missing", path);
  read_group(file, path, path.size() + 1, read);
}

template <class T>
T read_number(const Dataset& dataset, const ElementType& type) {
  T value{};
  dataset.find_type({type});
  dataset.require_rank(0);
  dataset.read(type, &value);
  return value;
}

Tensor read_tensor(const Dataset& dataset, int64_t image_bytes) {
  constexpr std::array kDTypes{DType::f32, DType::f64, DType::i32};
  const DType dtype = kDTypes[dataset.find_type({f32_type(), f64_type(), i32_type()})];
  dataset.require_stored(element_type(dtype), image_bytes);
  Tensor tensor = empty(dataset.shape(), dtype, Device::cpu, MemoryCategory::workspace);
  dataset.read(element_type(dtype), tensor.ref().data);
  return tensor;
}

std::string read_text(const Dataset& dataset, int64_t image_bytes) {
  dataset.find_type({u8_type()});
  dataset.require_rank(1);
  dataset.require_stored(u8_type(), image_bytes);
  std::string text(static_cast<size_t>(dataset.shape().numel()), '\0');
  dataset.read(u8_type(), text.data());
  return text;
}

}  // namespace
}  // namespace hdf5

CheckpointContent image_to_content(std::string_view image) {
  const data::Hdf5Call call;
  const hdf5::Handle file = hdf5::open_image(image);
  const auto image_bytes = static_cast<int64_t>(image.size());
  CheckpointContent content;
  hdf5::read_top_group(file, "tensors", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.tensors[name] = hdf5::read_tensor(dataset, image_bytes);
  });
  hdf5::read_top_group(file, "integers", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.integers[name] = hdf5::read_number<int64_t>(dataset, hdf5::i64_type());
  });
  hdf5::read_top_group(file, "reals", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.reals[name] = hdf5::read_number<double>(dataset, hdf5::f64_type());
  });
  hdf5::read_top_group(file, "texts", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.texts[name] = hdf5::read_text(dataset, image_bytes);
  });
  return content;
}

}  // namespace heed::train
