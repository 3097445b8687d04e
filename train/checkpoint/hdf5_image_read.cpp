#include <array>
#include <functional>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "data/io/hdf5_handle.hpp"
#include "train/checkpoint/hdf5_element.hpp"
#include "train/checkpoint/hdf5_image.hpp"

namespace heed::train {
namespace hdf5 {
namespace {

using data::hdf5_checked, data::hdf5_printable, data::hdf5_properties, data::Hdf5Handle;

// HDF5 would copy the image twice; these callbacks pass it the existing image. It is only read, so it never grows.
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

Hdf5Handle open_image(std::string_view& image) {
  const Hdf5Handle access = hdf5_properties(H5P_FILE_ACCESS);
  H5FD_file_image_callbacks_t callbacks = lend_image(image);
  hdf5_checked(H5Pset_fapl_core(access, kMemoryStep, false), "keep a file in memory");
  hdf5_checked(H5Pset_file_image_callbacks(access, &callbacks), "take a file in memory");
  hdf5_checked(H5Pset_file_image(access, const_cast<char*>(image.data()), image.size()), "take a file in memory");
  return Hdf5Handle(hdf5_checked(H5Fopen(kNoFile, H5F_ACC_RDONLY, access), "open it"));
}

struct Link {
  std::string name;
  H5L_type_t type;
};

std::vector<Link> links_of(hid_t group, const std::string& path, int64_t max_links) {
  struct Listing {
    std::vector<Link> links;
    size_t max_links;
  };
  const auto add_link = [](hid_t, const char* name, const H5L_info_t* info, void* to) -> herr_t {
    auto& listing = *static_cast<Listing*>(to);
    try {
      if (listing.links.size() < listing.max_links) listing.links.push_back({name, info->type});
      return listing.links.size() < listing.max_links ? 0 : 1;
    } catch (const std::bad_alloc&) {
      return -1;
    }
  };
  Listing listing{{}, static_cast<size_t>(max_links)};
  const herr_t ended_early =
      hdf5_checked(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_link, &listing), "list group " + path);
  require<CheckpointError>(ended_early == 0, "group {} has more links than the file has room for", path);
  return std::move(listing.links);
}

// Call this before HDF5 follows the link: soft and external links lead to other objects and files, and so may a hard
// link with a name such as "a/b".
void require_link(const Link& link, const std::string& folder) {
  const std::string path = folder + hdf5_printable(link.name);
  require<CheckpointError>(link.type == H5L_TYPE_HARD, "{} is {}, a checkpoint has hard links only", path,
                           link.type == H5L_TYPE_SOFT       ? "a soft link"
                           : link.type == H5L_TYPE_EXTERNAL ? "a link to another file"
                                                            : "a user-defined link");
  require<CheckpointError>(is_name_part(link.name),
                           "the name {} is not allowed, names are printable ASCII without spaces or '/'", path);
}

// An open dataset; its errors do not contain its name.
class Dataset {
 public:
  explicit Dataset(hid_t id) : id_(id) {
    require_elements_inside();  // first: HDF5 opens the files of a virtual dataset to return its shape
    const Hdf5Handle space(hdf5_checked(H5Dget_space(id_), "tell its shape"));
    const int rank = hdf5_checked(H5Sget_simple_extent_ndims(space), "tell its number of dimensions");
    require<CheckpointError>(H5Sget_simple_extent_type(space) != H5S_NULL, "it has no shape");
    require<CheckpointError>(rank <= Shape::kMaxRank, "it has {} dimensions, at most {} are allowed", rank,
                             Shape::kMaxRank);
    std::array<hsize_t, Shape::kMaxRank> sizes{};
    hdf5_checked(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), "tell its shape");
    for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
      shape_ = shape_.with_appended(static_cast<int64_t>(sizes[i]));
    }
  }

  const Shape& shape() const { return shape_; }

  void require_rank(int rank) const {
    require<CheckpointError>(shape_.rank() == rank, "it has shape {}, it must have {} dimensions", shape_, rank);
  }

  // Returns the index of the element type in `allowed`.
  size_t find_type(const std::vector<ElementType>& allowed) const {
    const Hdf5Handle type(hdf5_checked(H5Dget_type(id_), "tell its type"));
    std::string names;
    for (size_t i = 0; i < allowed.size(); ++i) {
      if (hdf5_checked(H5Tequal(type, allowed[i].stored), "compare its type") > 0) return i;
      names += (i == 0 ? "" : ", ") + std::string(allowed[i].name);
    }
    throw CheckpointError(fmt::format("its elements are of HDF5 class {} with {} bytes, they must be {}, little-endian",
                                      static_cast<int>(H5Tget_class(type)), H5Tget_size(type), names));
  }

  // Throws if the elements are not all in the file; call it before memory is allocated for them. left_bytes: the
  // remaining bytes of the file, so that datasets that share elements cannot require more memory than the file has
  // bytes.
  void require_stored(const ElementType& type, int64_t& left_bytes) const {
    const int64_t bytes = checked_multiply(shape_.numel(), static_cast<int64_t>(H5Tget_size(type.stored)));
    const auto stored = static_cast<int64_t>(H5Dget_storage_size(id_));
    require<CheckpointError>(stored == bytes, "its shape {} takes {} bytes, {} are stored", shape_, bytes, stored);
    require<CheckpointError>(bytes <= left_bytes, "it takes {} bytes, the file has {} besides the datasets before it",
                             bytes, left_bytes);
    left_bytes -= bytes;
  }

  void read(const ElementType& type, void* to) const {
    if (shape_.numel() == 0) return;
    hdf5_checked(H5Dread(id_, type.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to), "read it");
  }

 private:
  // Throws if the elements are in other files or datasets, chunked or filtered.
  void require_elements_inside() const {
    const Hdf5Handle properties(hdf5_checked(H5Dget_create_plist(id_), "tell its properties"));
    const H5D_layout_t layout = H5Pget_layout(properties);
    require<CheckpointError>(layout == H5D_CONTIGUOUS || layout == H5D_COMPACT,
                             "its elements are {}, they must be contiguous or compact",
                             layout == H5D_CHUNKED   ? "chunked"
                             : layout == H5D_VIRTUAL ? "those of other datasets"
                                                     : "in an unknown layout");
    require<CheckpointError>(hdf5_checked(H5Pget_external_count(properties), "tell where its elements are") == 0,
                             "its elements are in other files, they must be in the checkpoint itself");
    require<CheckpointError>(hdf5_checked(H5Pget_nfilters(properties), "tell its filters") == 0,
                             "its elements go through filters, a checkpoint has none");
  }

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

// Traverses the groups of an image. A malicious file may have cycles, or few objects with 2^40 paths to them, so every
// object may have only one path.
class Walk {
 public:
  explicit Walk(std::string_view& image)
      : file_(open_image(image)), max_links_(static_cast<int64_t>(image.size()) / kLinkBytes) {
    const Hdf5Handle root(hdf5_checked(H5Gopen2(file_, "/", H5P_DEFAULT), "open its root"));
    is_new(root);
    for (const Link& link : links_of(root, "/", max_links_)) {
      require_link(link, "");
      require<CheckpointError>(is_top_group(link.name),
                               "{} is unknown, a checkpoint has tensors, integers, reals and texts", link.name);
    }
  }

  // Reads all datasets of a top-level group and its subgroups. The names passed to `read` are relative to the top-level
  // group.
  void read_top_group(const std::string& path, const ReadDataset& read) {
    const bool exists = hdf5_checked(H5Lexists(file_, path.c_str(), H5P_DEFAULT), "look for group " + path) > 0;
    require<CheckpointError>(exists, "group {} is missing", path);
    const Hdf5Handle object(hdf5_checked(H5Oopen(file_, path.c_str(), H5P_DEFAULT), "open " + path));
    require<CheckpointError>(is_new(object) && H5Iget_type(object) == H5I_GROUP, "{} is not a separate group", path);
    read_group(object, path, path.size() + 1, read);
  }

 private:
  static constexpr int64_t kLinkBytes = 8;  // a link has at least an address

  static bool is_top_group(std::string_view name) {
    return name == "tensors" || name == "integers" || name == "reals" || name == "texts";
  }

  // Returns false if the object was visited before.
  bool is_new(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
    H5O_info1_t info;
#else
    H5O_info_t info;
#endif
    hdf5_checked(H5Oget_info2(object, &info, H5O_INFO_BASIC), "tell where an object is");
    return seen_.insert(info.addr).second;
  }

  void read_group(hid_t group, const std::string& path, size_t name_start, const ReadDataset& read) {
    const std::vector<Link> links = links_of(group, path, max_links_);
    for (const Link& link : links) require_link(link, path + "/");
    for (const Link& link : links) {
      const std::string inner = fmt::format("{}/{}", path, link.name);
      require<CheckpointError>(inner.size() - name_start <= kMaxNameLength, "the name of {} is too long", inner);
      const Hdf5Handle object(hdf5_checked(H5Oopen(group, link.name.c_str(), H5P_DEFAULT), "open " + inner));
      const H5I_type_t kind = H5Iget_type(object);
      require<CheckpointError>(kind == H5I_GROUP || kind == H5I_DATASET, "{} is neither group nor dataset", inner);
      require<CheckpointError>(is_new(object), "{} is another name of a group or dataset that has one", inner);
      if (kind == H5I_GROUP) {
        read_group(object, inner, name_start, read);
      } else {
        read_dataset(object, inner, inner.substr(name_start), read);
      }
    }
  }

  Hdf5Handle file_;
  std::set<haddr_t> seen_;
  int64_t max_links_;
};

template <class T>
T read_number(const Dataset& dataset, const ElementType& type, int64_t& left_bytes) {
  T value{};
  dataset.find_type({type});
  dataset.require_rank(0);
  dataset.require_stored(type, left_bytes);
  dataset.read(type, &value);
  return value;
}

Tensor read_tensor(const Dataset& dataset, int64_t& left_bytes) {
  constexpr std::array kDTypes{DType::f32, DType::f64, DType::i32};
  const DType dtype = kDTypes[dataset.find_type({f32_type(), f64_type(), i32_type()})];
  dataset.require_stored(element_type(dtype), left_bytes);
  Tensor tensor = empty(dataset.shape(), dtype, Device::cpu, MemoryCategory::workspace);
  dataset.read(element_type(dtype), tensor.ref().data);
  return tensor;
}
std::string read_text(const Dataset& dataset, int64_t& left_bytes) {
  dataset.find_type({u8_type()});
  dataset.require_rank(1);
  dataset.require_stored(u8_type(), left_bytes);
  std::string text(static_cast<size_t>(dataset.shape().numel()), '\0');
  dataset.read(u8_type(), text.data());
  return text;
}

}  // namespace
}  // namespace hdf5

CheckpointContent image_to_content(std::string_view image) {
  const data::Hdf5Call call;
  hdf5::Walk walk(image);
  auto left_bytes = static_cast<int64_t>(image.size());
  CheckpointContent content;
  walk.read_top_group("tensors", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.tensors[name] = hdf5::read_tensor(dataset, left_bytes);
  });
  walk.read_top_group("integers", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.integers[name] = hdf5::read_number<int64_t>(dataset, hdf5::i64_type(), left_bytes);
  });
  walk.read_top_group("reals", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.reals[name] = hdf5::read_number<double>(dataset, hdf5::f64_type(), left_bytes);
  });
  walk.read_top_group("texts", [&](const std::string& name, const hdf5::Dataset& dataset) {
    content.texts[name] = hdf5::read_text(dataset, left_bytes);
  });
  return content;
}

}  // namespace heed::train
