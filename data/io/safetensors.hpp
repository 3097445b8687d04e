// The safetensors format of Hugging Face: named tensors in one file, or in several with an index.
//
// A file is the length N of the header (u64, little-endian), the header (N bytes of JSON, an object), and the data of
// the tensors, row-major and little-endian. The header has for each tensor
//   "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, offsets from the end of the header,
// and under "__metadata__" strings. The data has no holes and no overlaps. Source: the README of the repository
// huggingface/safetensors, safetensors/src/tensor.rs.
//
// The files may come from anywhere, so reading checks every rule of the format before it allocates memory, and reads
// each tensor on request. Every function throws DataError: one line with the file, the tensor and the reason.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/core/dtype.hpp"
#include "data/io/posix_file.hpp"

namespace heed::data {

struct SafetensorsEntry {
  std::string dtype;  // of the format: "F32", "BF16" …
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes of the file

  int64_t elements() const;
};

class SafetensorsFile {
 public:
  static constexpr int64_t kMaxHeaderBytes = 100'000'000;

  explicit SafetensorsFile(const std::string& path);

  const std::string& name() const { return file_.name(); }
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }

  // Converts F64, F32, F16 and BF16 to f32. values: as many as the tensor has.
  void read(const std::string& tensor, std::span<float> values) const;

 private:
  void parse_header(std::string_view header, int64_t data_begin);

  PosixFile file_;
  std::map<std::string, SafetensorsEntry> entries_;
};

// The tensors of a model folder: those of model.safetensors or, without it, of the files that
// model.safetensors.index.json names. These must be in the folder itself, and have just the tensors that the index
// says. Symbolic links are followed wherever they lead: the cache of huggingface_hub is made of links to a folder
// next to it, and a name in the index cannot make one.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::string& folder);

  // nullptr if there is no such tensor.
  const SafetensorsEntry* find(const std::string& tensor) const;
  std::vector<std::string> names() const;  // sorted
  void read(const std::string& tensor, std::span<float> values) const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;
};

// A tensor to be written. values() is called once, when it is its turn.
struct SafetensorsTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::function<std::vector<float>()> values;
};

// Writes the tensors as f32 or bf16 (round to nearest even) to model.safetensors or, if they have over max_file_bytes,
// to model-00001-of-0000N.safetensors … and their index, in a folder that has none of these files. The order in a file
// and the padding are those of the package safetensors, so that the bytes are the same. Throws ValueError for values of
// another number than the shape. Returns the names of the files.
std::vector<std::string> write_safetensors(const std::string& folder, const std::vector<SafetensorsTensor>& tensors,
                                           DType dtype, int64_t max_file_bytes);

}  // namespace heed::data
