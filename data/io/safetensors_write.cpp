#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/core/check.hpp"
#include "data/io/safetensors.hpp"

namespace heed::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

int64_t bytes_of(const SafetensorsTensor& tensor, DType dtype) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), size_bytes(dtype), std::multiplies<>());
}

std::string header_of(std::span<const SafetensorsTensor* const> tensors, DType dtype) {
  Json json{{"__metadata__", {{"format", "pt"}}}};
  int64_t begin = 0;
  for (const SafetensorsTensor* tensor : tensors) {
    const int64_t end = begin + bytes_of(*tensor, dtype);
    json[tensor->name] = {
        {"dtype", dtype == DType::bf16 ? "BF16" : "F32"}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

// Chunk by chunk, so that the converted tensor is never whole in memory.
void write_values(PosixFile& file, int64_t offset, const std::vector<float>& values, DType dtype) {
  const auto bytes = [](const auto* data, size_t count) {
    return std::string_view(reinterpret_cast<const char*>(data), count * sizeof(*data));
  };
  if (dtype == DType::f32) return file.write(offset, bytes(values.data(), values.size()));
  constexpr size_t kChunk = 1 << 16;
  std::vector<Bf16> chunk;
  for (size_t begin = 0; begin < values.size(); begin += kChunk) {
    const size_t end = std::min(values.size(), begin + kChunk);
    chunk.clear();
    for (size_t i = begin; i < end; ++i) chunk.emplace_back(values[i]);
    file.write(offset + static_cast<int64_t>(begin * sizeof(Bf16)), bytes(chunk.data(), chunk.size()));
  }
}

void write_file(const fs::path& path, std::span<const SafetensorsTensor* const> tensors, DType dtype) {
  PosixFile file(path.string(), PosixFile::Access::create);
  const std::string header = header_of(tensors, dtype);
  const uint64_t length = header.size();
  file.write(0, {reinterpret_cast<const char*>(&length), sizeof(length)});
  file.write(sizeof(length), header);
  auto offset = static_cast<int64_t>(sizeof(length) + header.size());
  for (const SafetensorsTensor* tensor : tensors) {
    const std::vector<float> values = tensor->values();
    const int64_t bytes = bytes_of(*tensor, dtype);
    require<ValueError>(static_cast<int64_t>(values.size()) * size_bytes(dtype) == bytes,
                        "safetensors: {} values for tensor {} of {} bytes", values.size(), tensor->name, bytes);
    write_values(file, offset, values, dtype);
    offset += bytes;
  }
  file.sync();
}

}  // namespace

std::vector<std::string> write_safetensors(const std::string& folder, const std::vector<SafetensorsTensor>& tensors,
                                           DType dtype, int64_t max_file_bytes) {
  std::vector<const SafetensorsTensor*> sorted;
  for (const SafetensorsTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  std::vector<size_t> starts{0};  // of the files, as indices of sorted
  int64_t total = 0, in_file = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const int64_t bytes = bytes_of(*sorted[i], dtype);
    if (in_file > 0 && in_file + bytes > max_file_bytes) {
      starts.push_back(i);
      in_file = 0;
    }
    in_file += bytes;
    total += bytes;
  }
  starts.push_back(sorted.size());
  const size_t files = starts.size() - 1;
  std::vector<std::string> names;
  Json map = Json::object();
  for (size_t i = 0; i < files; ++i) {
    names.push_back(files == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files));
    const std::span part(sorted.data() + starts[i], starts[i + 1] - starts[i]);
    write_file(fs::path(folder) / names.back(), part, dtype);
    for (const SafetensorsTensor* tensor : part) map[tensor->name] = names.back();
  }
  if (files == 1) return names;
  names.emplace_back("model.safetensors.index.json");
  PosixFile index((fs::path(folder) / names.back()).string(), PosixFile::Access::create);
  index.write(0, Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
  index.sync();
  return names;
}

}  // namespace heed::data
