// libFuzzer on the readers of the files of Hugging Face.
//
// The first byte chooses what the others are:
// - a safetensors file as it is;
// - the header of one, with a fitting length and some bytes of data;
// - JSON text;
// - the config.json of a model folder, for the import and for the plain model.
// Tokenizer files: tokenizer_fuzz.cpp.
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/io/json_reader.hpp"
#include "data/io/safetensors.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "train/huggingface/import_model.hpp"
#include "train/huggingface/plain_model.hpp"

namespace {

using namespace heed;
using heed::test::Bytes, heed::test::expect, heed::test::expect_one_line;
namespace fs = std::filesystem;

// The one folder of this program.
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
    std::error_code ignored;
    fs::remove(path, ignored);
    data::PosixFile(path, data::PosixFile::Access::create).write(0, bytes);
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

void try_safetensors(std::string_view bytes) {
  const data::SafetensorsFile file(folder().write("model.safetensors", bytes));
  int64_t covered = 0;
  for (const auto& [name, entry] : file.entries()) {
    expect(0 <= entry.begin && entry.begin <= entry.end && entry.end <= static_cast<int64_t>(bytes.size()));
    covered += entry.end - entry.begin;
    if (entry.dtype != "F32" && entry.dtype != "F16" && entry.dtype != "BF16") continue;
    std::vector<float> values(entry.elements());
    file.read(name, values);
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  expect(covered == static_cast<int64_t>(bytes.size() - sizeof(length) - length));
}

void try_json(std::string_view text) {
  const nlohmann::json json = data::parse_json(text, "file");
  expect(data::parse_json(json.dump(), "file") == json);
  const data::JsonObject object(json, "file");
  for (const auto& [key, value] : json.items()) {
    try {
      object.integer(key, -1000, 1000);
      object.text_or(key, "");
    } catch (const DataError& error) {
      expect_one_line(error.what());
    }
  }
}

void try_config(std::string_view text) {
  folder().write("config.json", text);
  folder().write("model.safetensors", with_length("{}"));
  try {
    train::import_model(folder().path());
  } catch (const DataError& error) {
    expect(error.what()[0] != '\0');
  }
  const train::PlainModel model(folder().path());
}

void try_all(std::string_view input) {
  Bytes bytes(input);
  switch (bytes.number() % 4) {
    case 0:
      return try_safetensors(bytes.rest());
    case 1: {
      const size_t data = bytes.number();
      return try_safetensors(with_length(bytes.rest()).append(data, '\1'));
    }
    case 2:
      return try_json(bytes.rest());
    default:
      return try_config(bytes.rest());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    try_all({reinterpret_cast<const char*>(data), size});
  } catch (const DataError& error) {
    expect_one_line(error.what());
  } catch (const MemoryError& error) {
    expect_one_line(error.what());
  }
  return 0;
}
