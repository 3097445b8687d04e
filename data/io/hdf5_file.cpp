#include "data/io/hdf5_file.hpp"

#include <hdf5.h>

#include <algorithm>

#include "autograd/core/check.hpp"
#include "data/io/hdf5_handle.hpp"
#include "data/io/posix_file.hpp"

namespace heed::data {

namespace {

constexpr int64_t kMetadataBytes = int64_t{4} << 20;  // HDF5 may write this much in addition to the elements
template <class T>
T require_done(T result, const std::string& where, const char* what) {
  require<DataError>(result >= 0, "{}: HDF5 cannot {}", where, what);
  return result;
}

Hdf5Handle require_handle(hid_t id, const std::string& where, const char* what) {
  return Hdf5Handle(require_done(id, where, what));
}

hid_t element_type(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::u8:
      return H5T_STD_U8LE;
    case Hdf5Type::u16:
      return H5T_STD_U16LE;
    case Hdf5Type::u32:
      return H5T_STD_U32LE;
    case Hdf5Type::u64:
      return H5T_STD_U64LE;
  }
  throw ValueError("element_type: no such type");
}

template <class T>
constexpr Hdf5Type kTypeOf = sizeof(T) == 1   ? Hdf5Type::u8
                             : sizeof(T) == 2 ? Hdf5Type::u16
                             : sizeof(T) == 4 ? Hdf5Type::u32
                                              : Hdf5Type::u64;

Hdf5Type type_of(hid_t dataset, const std::string& where) {
  const Hdf5Handle type = require_handle(H5Dget_type(dataset), where, "give its type");
  for (const Hdf5Type known : {Hdf5Type::u8, Hdf5Type::u16, Hdf5Type::u32, Hdf5Type::u64}) {
    if (require_done(H5Tequal(type, element_type(known)), where, "compare its type") > 0) return known;
  }
  throw DataError(fmt::format("{} has elements that are not u8, u16, u32 or u64", where));
}

void require_type(Hdf5Type asked, Hdf5Type type, const std::string& where) {
  require<ValueError>(asked == type, "{} has elements of type {}, not {}", where, hdf5_type_name(type),
                      hdf5_type_name(asked));
}

// The hyperslab of elements [first, first + count) on disk.
Hdf5Handle select(hid_t dataset, hsize_t first, hsize_t count, const std::string& where) {
  Hdf5Handle space = require_handle(H5Dget_space(dataset), where, "give its shape");
  require_done(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &count, nullptr), where, "select");
  return space;
}

Hdf5Handle file_access(const std::string& where) {
  Hdf5Handle access = require_handle(H5Pcreate(H5P_FILE_ACCESS), where, "prepare access");
  require_done(H5Pset_fapl_sec2(access), where, "take the plain file driver");
  require_done(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), where, "take its format");
  require_done(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), where, "prepare closing");
#if H5_VERSION_GE(1, 10, 7)
  // Locks fail on read-only and some network file systems.
  require_done(H5Pset_file_locking(access, false, true), where, "leave out locks");
#endif
  return access;
}

// Without a chunk cache, only the requested elements are read and written, not whole chunks.
Hdf5Handle dataset_access(const std::string& where) {
  Hdf5Handle access = require_handle(H5Pcreate(H5P_DATASET_ACCESS), where, "prepare access");
  require_done(H5Pset_chunk_cache(access, 0, 0, 0.0), where, "leave out its cache");
  return access;
}

// Number of elements per chunk.
hsize_t chunk_of(hid_t dataset, const std::string& where) {
  const Hdf5Handle properties = require_handle(H5Dget_create_plist(dataset), where, "give its layout");
  hsize_t chunk = 0;
  require_done(H5Pget_chunk(properties, 1, &chunk), where, "give its chunks");
  return chunk;
}

int descriptor_of(hid_t file, const std::string& where) {
  void* handle = nullptr;
  require_done(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle), where, "give its file descriptor");
  return *static_cast<int*>(handle);
}

// Reserves disk space for `bytes` more, and for the metadata that HDF5 keeps in memory until the file is closed.
void reserve_space(hid_t object, int64_t bytes, const std::string& where) {
  const Hdf5Handle file = require_handle(H5Iget_file_id(object), where, "give its file");
  hsize_t taken = 0;  // includes partly filled chunks
  require_done(H5Fget_filesize(file, &taken), where, "give its size");
  reserve_space_up_to(descriptor_of(file, where), static_cast<int64_t>(taken) + bytes + kMetadataBytes, where);
}

// A soft or external link may lead to another file, even one of another user.
void require_own_link(hid_t file, const std::string& name, const std::string& where) {
  H5L_info_t link{};
  require_done(H5Lget_info(file, name.c_str(), &link, H5P_DEFAULT), where, "open it");
  require<DataError>(link.type == H5L_TYPE_HARD, "{} is a link to elsewhere, it must be in the file itself", where);
}

void require_plain_chunks(hid_t dataset, const std::string& where) {
  const Hdf5Handle properties = require_handle(H5Dget_create_plist(dataset), where, "give its layout");
  const bool in_chunks = require_done(H5Pget_layout(properties), where, "give its layout") == H5D_CHUNKED;
  require<DataError>(in_chunks && require_done(H5Pget_nfilters(properties), where, "give its filters") == 0,
                     "{} must be stored in chunks, without compression or other filters", where);
}

struct OpenAttribute {
  OpenAttribute(hid_t file, const std::string& name, std::string place)
      : where(std::move(place)),
        id(require_handle(H5Aopen(file, name.c_str(), H5P_DEFAULT), where, "open it")),
        type(require_handle(H5Aget_type(id), where, "give its type")) {
    const Hdf5Handle space = require_handle(H5Aget_space(id), where, "give its shape");
    count = H5Sget_simple_extent_npoints(space);
  }

  std::string where;
  Hdf5Handle id;
  Hdf5Handle type;
  int64_t count = 0;
};

}  // namespace

const char* hdf5_type_name(Hdf5Type type) {
  return type == Hdf5Type::u8 ? "u8" : type == Hdf5Type::u16 ? "u16" : type == Hdf5Type::u32 ? "u32" : "u64";
}

Hdf5Dataset::Hdf5Dataset(std::string where, Hdf5Handle dataset)
    : where_(std::move(where)), dataset_(std::move(dataset)), type_(type_of(dataset_, where_)) {}

int64_t Hdf5Dataset::size() const {
  const Hdf5Call call;
  const Hdf5Handle space = require_handle(H5Dget_space(dataset_), where_, "give its shape");
  return require_done(H5Sget_simple_extent_npoints(space), where_, "give its size");
}

template <class T>
void Hdf5Dataset::append(std::span<const T> values) {
  const Hdf5Call call;
  require_type(kTypeOf<T>, type_, where_);
  const auto first = static_cast<hsize_t>(size()), count = static_cast<hsize_t>(values.size()), end = first + count;
  const hsize_t chunk = chunk_of(dataset_, where_);
  const hsize_t new_chunks = (end + chunk - 1) / chunk - (first + chunk - 1) / chunk;
  reserve_space(dataset_, static_cast<int64_t>(new_chunks * chunk * sizeof(T)), where_);
  require_done(H5Dset_extent(dataset_, &end), where_, "grow");
  const Hdf5Handle disk = select(dataset_, first, count, where_);
  const Hdf5Handle memory = require_handle(H5Screate_simple(1, &count, nullptr), where_, "make a shape");
  require_done(H5Dwrite(dataset_, element_type(type_), memory, disk, H5P_DEFAULT, values.data()), where_, "write");
}

template <class T>
void Hdf5Dataset::read(int64_t first, std::span<T> values) const {
  const Hdf5Call call;
  require_type(kTypeOf<T>, type_, where_);
  const auto begin = static_cast<hsize_t>(first), count = static_cast<hsize_t>(values.size());
  const auto available = static_cast<hsize_t>(size());
  require<ValueError>(first >= 0 && count <= available && begin <= available - count,
                      "{}: {} elements from {} on, there are {}", where_, count, first, available);
  const Hdf5Handle disk = select(dataset_, begin, count, where_);
  const Hdf5Handle memory = require_handle(H5Screate_simple(1, &count, nullptr), where_, "make a shape");
  require_done(H5Dread(dataset_, element_type(type_), memory, disk, H5P_DEFAULT, values.data()), where_, "read");
}

template void Hdf5Dataset::append(std::span<const uint8_t>);
template void Hdf5Dataset::append(std::span<const uint16_t>);
template void Hdf5Dataset::append(std::span<const uint32_t>);
template void Hdf5Dataset::append(std::span<const uint64_t>);
template void Hdf5Dataset::read(int64_t, std::span<uint8_t>) const;
template void Hdf5Dataset::read(int64_t, std::span<uint16_t>) const;
template void Hdf5Dataset::read(int64_t, std::span<uint32_t>) const;
template void Hdf5Dataset::read(int64_t, std::span<uint64_t>) const;

int64_t Hdf5Dataset::chunk_elements() const {
  const Hdf5Call call;
  return static_cast<int64_t>(chunk_of(dataset_, where_));
}

std::vector<int64_t> Hdf5Dataset::chunk_addresses() const {
  const Hdf5Call call;
  const hsize_t chunk = chunk_of(dataset_, where_);
  std::vector<int64_t> addresses;
  for (hsize_t first = 0; first < static_cast<hsize_t>(size()); first += chunk) {
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    unsigned filters = 0;
    require_done(H5Dget_chunk_info_by_coord(dataset_, &first, &filters, &address, &bytes), where_, "find a chunk");
    require<DataError>(address != HADDR_UNDEF, "{}: a chunk has not been written", where_);
    addresses.push_back(static_cast<int64_t>(address));
  }
  return addresses;
}

Hdf5File Hdf5File::create(const std::string& path, int64_t user_block_bytes, const std::string& name) {
  const Hdf5Call call;
  // H5Fcreate() already writes bytes after the user block.
  reserve_space_up_to(PosixFile(path, PosixFile::Access::open_or_create, name).descriptor(),
                      user_block_bytes + kMetadataBytes, name);
  const Hdf5Handle access = file_access(name);
  const Hdf5Handle creation = require_handle(H5Pcreate(H5P_FILE_CREATE), name, "prepare creation");
  require_done(H5Pset_userblock(creation, static_cast<hsize_t>(user_block_bytes)), name, "leave a user block");
  require_done(H5Pset_obj_track_times(creation, false), name, "leave out times");
  Hdf5Handle file = require_handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), name, "create it");
  reserve_space(file, 0, name);
  return Hdf5File(name, std::move(file));
}

Hdf5File Hdf5File::open(const std::string& path) {
  const Hdf5Call call;
  const std::string where = quoted_path(path);
  const Hdf5Handle access = file_access(where);
  return Hdf5File(where, require_handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), where, "open it"));
}

FileStamp Hdf5File::stamp() const {
  const Hdf5Call call;
  return stamp_of(descriptor_of(file_, name_), name_);
}

void Hdf5File::close() {
  const Hdf5Call call;
  require_done(H5Fflush(file_, H5F_SCOPE_GLOBAL), name_, "write it to the end");
  require<DataError>(file_.close() >= 0, "{} cannot be written to its end", name_);
}

void Hdf5File::write_attribute(const std::string& name, int64_t value) {
  const Hdf5Call call;
  const Hdf5Handle space = require_handle(H5Screate(H5S_SCALAR), name_, "make a shape");
  const Hdf5Handle attribute = require_handle(
      H5Acreate2(file_, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), name_, "make an attribute");
  require_done(H5Awrite(attribute, H5T_NATIVE_INT64, &value), name_, "write an attribute");
}

void Hdf5File::write_attribute(const std::string& name, const std::string& value) {
  const Hdf5Call call;
  const Hdf5Handle space = require_handle(H5Screate(H5S_SCALAR), name_, "make a shape");
  const Hdf5Handle type = require_handle(H5Tcopy(H5T_C_S1), name_, "make a type");
  require_done(H5Tset_size(type, std::max<size_t>(value.size(), 1)), name_, "make a type");
  require_done(H5Tset_cset(type, H5T_CSET_UTF8), name_, "make a type");
  require_done(H5Tset_strpad(type, H5T_STR_NULLPAD), name_, "make a type");
  const Hdf5Handle attribute = require_handle(H5Acreate2(file_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                                              name_, "make an attribute");
  require_done(H5Awrite(attribute, type, value.c_str()), name_, "write an attribute");
}

bool Hdf5File::has_attribute(const std::string& name) const {
  const Hdf5Call call;
  return require_done(H5Aexists(file_, name.c_str()), where("attribute", name), "look for it") > 0;
}

int64_t Hdf5File::integer_attribute(const std::string& name) const {
  const Hdf5Call call;
  const OpenAttribute attribute(file_, name, where("attribute", name));
  require<DataError>(attribute.count == 1 && H5Tget_class(attribute.type) == H5T_INTEGER, "{} is not one integer",
                     attribute.where);
  int64_t value = 0;
  require_done(H5Aread(attribute.id, H5T_NATIVE_INT64, &value), attribute.where, "read it");
  return value;
}

std::string Hdf5File::text_attribute(const std::string& name) const {
  constexpr size_t kMaxBytes = 65536;
  const Hdf5Call call;
  const OpenAttribute attribute(file_, name, where("attribute", name));
  const hid_t type = attribute.type;
  require<DataError>(attribute.count == 1 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
                         H5Tget_size(type) <= kMaxBytes,
                     "{} is not one text of fixed length", attribute.where);
  std::string value(H5Tget_size(type), '\0');
  require_done(H5Aread(attribute.id, type, value.data()), attribute.where, "read it");
  return value.substr(0, value.find('\0'));
}

Hdf5Dataset Hdf5File::create_dataset(const std::string& name, Hdf5Type type, int64_t chunk_elements) {
  const Hdf5Call call;
  const hsize_t size = 0, unlimited = H5S_UNLIMITED, chunk = static_cast<hsize_t>(chunk_elements);
  const Hdf5Handle space = require_handle(H5Screate_simple(1, &size, &unlimited), name_, "make a shape");
  const Hdf5Handle layout = require_handle(H5Pcreate(H5P_DATASET_CREATE), name_, "make a layout");
  require_done(H5Pset_chunk(layout, 1, &chunk), name_, "take these chunks");
  // With fill values, HDF5 would keep each whole chunk in memory until it is written.
  require_done(H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER), name_, "leave out fill values");
  // No timestamps: the same text produces the same bytes.
  require_done(H5Pset_obj_track_times(layout, false), name_, "leave out times");
  const Hdf5Handle access = dataset_access(name_);
  return {where("dataset", name),
          require_handle(H5Dcreate2(file_, name.c_str(), element_type(type), space, H5P_DEFAULT, layout, access), name_,
                         "make a dataset")};
}

Hdf5Dataset Hdf5File::dataset(const std::string& name, std::initializer_list<Hdf5Type> types) const {
  const Hdf5Call call;
  const std::string place = where("dataset", name);
  require_own_link(file_, name, place);
  const Hdf5Handle access = dataset_access(place);
  Hdf5Dataset dataset(place, require_handle(H5Dopen2(file_, name.c_str(), access), place, "open it"));
  require_plain_chunks(dataset.dataset_, place);
  const Hdf5Handle space = require_handle(H5Dget_space(dataset.dataset_), place, "give its shape");
  require<DataError>(H5Sget_simple_extent_ndims(space) == 1, "{} must have one dimension", place);
  std::string names;
  for (const Hdf5Type type : types) names += (names.empty() ? "" : " or ") + std::string(hdf5_type_name(type));
  require<DataError>(std::count(types.begin(), types.end(), dataset.type()) > 0,
                     "{} has elements of type {}, they must be {}", place, hdf5_type_name(dataset.type()), names);
  // Checked before memory is allocated for the elements: unwritten elements need no space in the file.
  const auto stored = static_cast<int64_t>(H5Dget_storage_size(dataset.dataset_));
  const auto element_bytes = static_cast<int64_t>(H5Tget_size(element_type(dataset.type())));
  require<DataError>(dataset.size() <= stored / element_bytes, "{} has {} elements, but only {} bytes", place,
                     dataset.size(), stored);
  return dataset;
}

std::string Hdf5File::where(const char* kind, const std::string& name) const {
  return fmt::format("{}, {} \"{}\"", name_, kind, name);
}

}  // namespace heed::data
