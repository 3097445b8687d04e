#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/io/json_reader.hpp"
#include "data/io/quoted_start.hpp"
#include "data/io/safetensors.hpp"

namespace heed::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kLengthBytes = 8, kMaxIndexBytes = 100'000'000, kMaxRank = 64;
constexpr const char* kMetadata = "__metadata__";

struct DtypeSize {
  std::string_view name;
  int64_t bits;
};
constexpr DtypeSize kDtypes[] = {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                                 {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
                                 {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
                                 {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
                                 {"I64", 64},        {"U64", 64}};

int64_t bits_of(std::string_view dtype) {
  const auto* found =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeSize& one) { return one.name == dtype; });
  return found == std::end(kDtypes) ? 0 : found->bits;
}

// Throws DataError if the product overflows.
int64_t multiplied(int64_t a, int64_t b, const std::string& where) {
  int64_t product = 0;
  require<DataError>(!__builtin_mul_overflow(a, b, &product), "{}: its shape has too many elements", where);
  return product;
}

SafetensorsEntry parse_entry(const Json& json, const std::string& where, int64_t data_begin, int64_t data_bytes) {
  const JsonObject object(json, where);
  require<DataError>(json.size() == 3, "{}: it must have the keys dtype, shape and data_offsets, and no other", where);
  SafetensorsEntry entry;
  entry.dtype = object.text("dtype");
  const int64_t bits = bits_of(entry.dtype);
  require<DataError>(bits > 0, "{}: dtype {} is unknown", where, quoted_start(entry.dtype));
  const Json &shape = object.list("shape"), &offsets = object.list("data_offsets");
  require<DataError>(static_cast<int64_t>(shape.size()) <= kMaxRank,
                     "{}: its shape has {} dimensions, at most {} are read", where, shape.size(), kMaxRank);
  require<DataError>(offsets.size() == 2, "{}: data_offsets must be two numbers, begin and end", where);
  const auto whole_number = [&](const Json& value) {
    const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    require<DataError>(fits, "{}: shape and data_offsets must be integers from 0 to {}", where, INT64_MAX);
    return value.get<int64_t>();
  };
  int64_t total_bits = bits;
  for (const Json& size : shape) {
    entry.shape.push_back(whole_number(size));
    total_bits = multiplied(total_bits, entry.shape.back(), where);
  }
  const int64_t begin = whole_number(offsets[0]), end = whole_number(offsets[1]);
  require<DataError>(begin <= end && end <= data_bytes, "{}: data_offsets are {} and {}, the file has {} bytes of data",
                     where, begin, end, data_bytes);
  require<DataError>(total_bits % 8 == 0 && total_bits / 8 == end - begin,
                     "{}: {} bytes of data do not fit its dtype and shape", where, end - begin);
  entry.begin = data_begin + begin;
  entry.end = data_begin + end;
  return entry;
}

// Each byte of the data must belong to one tensor.
void require_no_holes(const std::map<std::string, SafetensorsEntry>& entries, int64_t begin, int64_t end,
                      const std::string& file) {
  std::vector<std::pair<const std::string*, const SafetensorsEntry*>> sorted;
  for (const auto& [name, entry] : entries) sorted.emplace_back(&name, &entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  for (const auto& [name, entry] : sorted) {
    require<DataError>(entry->begin == begin, "{}: tensor {} {}", file, quoted_start(*name),
                       entry->begin < begin ? "overlaps another" : "begins after bytes that belong to no tensor");
    begin = entry->end;
  }
  require<DataError>(begin == end, "{}: {} bytes at its end belong to no tensor", file, end - begin);
}

// IEEE 754 binary16.
float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16, exponent = (bits >> 10) & 31U,
                 fraction = bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent > 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
  return sign == 0 ? subnormal : -subnormal;
}

template <class Stored, class Convert>
void convert(const PosixFile& file, const SafetensorsEntry& entry, std::span<float> values, Convert to_float) {
  constexpr int64_t kChunk = 1 << 16;
  std::vector<Stored> chunk(std::min<int64_t>(kChunk, static_cast<int64_t>(values.size())));
  for (int64_t done = 0; done < static_cast<int64_t>(values.size());) {
    const int64_t count = std::min<int64_t>(kChunk, static_cast<int64_t>(values.size()) - done);
    const auto bytes = static_cast<int64_t>(sizeof(Stored));
    file.read(entry.begin + done * bytes, {reinterpret_cast<char*>(chunk.data()), static_cast<size_t>(count * bytes)});
    std::transform(chunk.begin(), chunk.begin() + count, values.begin() + done, to_float);
    done += count;
  }
}

// The file names in the index, checked: each in the folder itself.
std::map<std::string, std::string> weight_map(const fs::path& index) {
  const Json json = read_json_file(index.string(), kMaxIndexBytes);
  const std::string name = quoted_path(index.string());
  const JsonObject map = JsonObject(json, name).object("weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map.json().items()) {
    const std::string text = map.text(tensor);
    require<DataError>(!text.empty() && text.find('/') == std::string::npos && text.find('\0') == std::string::npos &&
                           text != "." && text != "..",
                       "{}: weight_map names the file {}, it must be a file of this folder", name, quoted_start(text));
    files[tensor] = text;
  }
  return files;
}

}  // namespace

int64_t SafetensorsEntry::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path, PosixFile::Access::read) {
  const int64_t bytes = file_.size();
  require<DataError>(bytes >= kLengthBytes, "{} has {} bytes, too few for a safetensors file", name(), bytes);
  uint64_t length = 0;
  file_.read(0, {reinterpret_cast<char*>(&length), sizeof(length)});
  require<DataError>(length <= kMaxHeaderBytes, "{}: its header has {} bytes, at most {} are read", name(), length,
                     kMaxHeaderBytes);
  const auto header_bytes = static_cast<int64_t>(length);
  require<DataError>(header_bytes <= bytes - kLengthBytes, "{}: its header has {} bytes, the file only {}", name(),
                     header_bytes, bytes);
  std::string header(header_bytes, '\0');
  file_.read(kLengthBytes, header);
  parse_header(header, kLengthBytes + header_bytes);
}

void SafetensorsFile::parse_header(std::string_view header, int64_t data_begin) {
  require<DataError>(header.starts_with('{'), "{}: its header must begin with {{", name());
  const int64_t end = file_.size();
  const Json json = parse_json(header, name() + ": header");
  for (const auto& [tensor, value] : json.items()) {
    const std::string where = fmt::format("{}: tensor {}", name(), quoted_start(tensor));
    if (tensor != kMetadata) {
      entries_.emplace(tensor, parse_entry(value, where, data_begin, end - data_begin));
      continue;
    }
    const JsonObject metadata(value, name() + ": " + kMetadata);
    for (const auto& [key, one] : value.items()) metadata.text(key);
  }
  require_no_holes(entries_, data_begin, end, name());
}

void SafetensorsFile::read(const std::string& tensor, std::span<float> values) const {
  const auto found = entries_.find(tensor);
  require<DataError>(found != entries_.end(), "{} has no tensor {}", name(), quoted_start(tensor));
  const SafetensorsEntry& entry = found->second;
  require<DataError>(static_cast<int64_t>(values.size()) == entry.elements(), "{}: tensor {} has {} elements, not {}",
                     name(), quoted_start(tensor), entry.elements(), values.size());
  if (entry.dtype == "F32") {
    convert<float>(file_, entry, values, [](float value) { return value; });
  } else if (entry.dtype == "F64") {
    convert<double>(file_, entry, values, [](double value) { return static_cast<float>(value); });
  } else if (entry.dtype == "F16") {
    convert<uint16_t>(file_, entry, values, half_to_float);
  } else if (entry.dtype == "BF16") {
    convert<Bf16>(file_, entry, values, [](Bf16 value) { return static_cast<float>(value); });
  } else {
    throw DataError(fmt::format("{}: tensor {} is {}, only F64, F32, F16 and BF16 are read", name(),
                                quoted_start(tensor), entry.dtype));
  }
}

SafetensorsFolder::SafetensorsFolder(const std::string& folder) {
  const fs::path single = fs::path(folder) / "model.safetensors",
                 index = fs::path(folder) / "model.safetensors.index.json";
  std::error_code unknown;  // of a link to itself, say; opening the file gives its error
  if (fs::exists(single, unknown) || !fs::exists(index, unknown)) {
    files_.emplace_back(single.string());
    for (const auto& [tensor, entry] : files_.front().entries()) file_of_[tensor] = 0;
    return;
  }
  std::map<std::string, size_t> number_of;
  size_t tensors = 0;
  for (const auto& [tensor, file] : weight_map(index)) {
    const auto [number, is_new] = number_of.emplace(file, files_.size());
    if (is_new) {
      files_.emplace_back((fs::path(folder) / file).string());
      tensors += files_.back().entries().size();
    }
    require<DataError>(files_[number->second].entries().contains(tensor),
                       "{} has no tensor {}, which model.safetensors.index.json says it has",
                       files_[number->second].name(), quoted_start(tensor));
    file_of_[tensor] = number->second;
  }
  require<DataError>(tensors == file_of_.size(), "{}: its files have {} tensors, it names {}",
                     quoted_path(index.string()), tensors, file_of_.size());
}

const SafetensorsEntry* SafetensorsFolder::find(const std::string& tensor) const {
  const auto found = file_of_.find(tensor);
  return found == file_of_.end() ? nullptr : &files_[found->second].entries().at(tensor);
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> all;
  for (const auto& [name, file] : file_of_) all.push_back(name);
  return all;
}

void SafetensorsFolder::read(const std::string& tensor, std::span<float> values) const {
  const auto found = file_of_.find(tensor);
  require<DataError>(found != file_of_.end(), "the model has no tensor {}", quoted_start(tensor));
  files_[found->second].read(tensor, values);
}

}  // namespace heed::data
