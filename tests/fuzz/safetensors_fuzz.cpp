// libFuzzer on the reader of safetensors files and of their index.
//
// The first byte chooses what the others are:
// - a file as it is;
// - the number of data bytes, and the header of a file, whose length field is right;
// - numbers that make a nearly valid header;
// - the index of a folder with two files.
// The reader must throw one DataError that names the file, unless the tensors cover the data without gaps.
#include <stdlib.h>

#include <cstring>
#include <filesystem>

#include "autograd/core/check.hpp"
#include "data/io/safetensors.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

using namespace heed;
using heed::data::SafetensorsFile, heed::data::SafetensorsFolder, heed::test::Bytes, heed::test::expect;
namespace fs = std::filesystem;

// The temporary folder that all inputs share.
class OneFolder {
 public:
  OneFolder() {
    std::string name = (fs::temp_directory_path() / "heed-fuzz-XXXXXX").string();
    expect(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~OneFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OneFolder(const OneFolder&) = delete;
  OneFolder& operator=(const OneFolder&) = delete;

  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string path = path_ + "/" + name;
    data::PosixFile file(path, data::PosixFile::Access::open_or_create);
    file.truncate(0);
    file.write(0, bytes);
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const OneFolder& folder() {
  static const OneFolder one;
  return one;
}

std::string with_length(std::string_view header) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)).append(header);
}

void try_file(std::string_view bytes) {
  const SafetensorsFile file(folder().write("x", bytes));
  int64_t covered = 0;
  for (const auto& [name, entry] : file.entries()) {
    expect(8 <= entry.begin && entry.begin <= entry.end && entry.end <= static_cast<int64_t>(bytes.size()));
    covered += entry.end - entry.begin;
    expect(entry.elements() <= 2 * static_cast<int64_t>(bytes.size()));
    const bool is_float = entry.dtype == "F64" || entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16";
    if (!is_float) continue;
    std::vector<float> values(entry.elements());
    file.read(name, values);
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  expect(covered == static_cast<int64_t>(bytes.size() - sizeof(length) - length));
}

// Adjacent tensors, with a wrong number here and there.
void try_tensors(Bytes bytes) {
  constexpr const char* kDtypes[] = {"F32", "BF16", "F16", "F64", "U8", "F4"};
  constexpr int64_t kBits[] = {32, 16, 16, 64, 8, 4};
  std::string header = "{\"__metadata__\":{}";
  int64_t end = 0;
  for (int tensors = bytes.number() % 8; tensors > 0; --tensors) {
    const int dtype = bytes.number() % 6;
    const int64_t rows = bytes.number() % 8, columns = bytes.number() % 8;
    const int64_t begin = end + (bytes.number() == 1 ? bytes.number() - 128 : 0);
    end = begin + rows * columns * kBits[dtype] / 8 + (bytes.number() == 1 ? 1 : 0);
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{},{}],"data_offsets":[{},{}]}})", tensors, kDtypes[dtype],
                          rows, columns, begin, end);
  }
  const size_t data_bytes = std::max<int64_t>(end, 0) + (bytes.number() == 1 ? 1 : 0);
  std::string data(bytes.rest());
  data.resize(data_bytes);
  try_file(with_length(header + "}") + data);
}

void try_index(std::string_view index) {
  folder().write("a", with_length(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})") + "1");
  folder().write("b", with_length(R"({"b":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                                  R"("c":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})") +
                          "1");
  folder().write("model.safetensors.index.json", index);
  const SafetensorsFolder all(folder().path());
  for (const std::string& name : all.names()) expect(name == "a" || name == "b" || name == "c");
}

void try_all(std::string_view input) {
  Bytes bytes(input);
  switch (bytes.number() % 4) {
    case 0:
      return try_file(bytes.rest());
    case 1: {
      const size_t data = bytes.number();
      return try_file(with_length(bytes.rest()).append(data, '\1'));
    }
    case 2:
      return try_tensors(bytes);
    default:
      return try_index(bytes.rest());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    try_all({reinterpret_cast<const char*>(data), size});
  } catch (const DataError& error) {
    // The length of the error is not checked.
    const std::string_view text = error.what();
    expect(text.find('\n') == std::string_view::npos &&
           text.find(fs::path(folder().path()).filename().string()) != text.npos);
  }
  return 0;
}
