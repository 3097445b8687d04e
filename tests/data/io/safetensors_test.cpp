#include "data/io/safetensors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "autograd/core/check.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

// The bytes of a file with this header and so many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  return bytes + header + std::string(data_bytes, '\1');
}

std::string refusal_of_bytes(const std::string& bytes) {
  const ScratchFolder folder;
  const std::string path = folder.write("x.safetensors", bytes);
  const std::string error = error_text<DataError>([&] { const SafetensorsFile file(path); });
  EXPECT_TRUE(contains(error, {"x.safetensors\""}));
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

// Whether the file is read without an error.
bool is_accepted(const std::string& header, size_t data_bytes = 8) {
  const ScratchFolder folder;
  const SafetensorsFile file(folder.write("x.safetensors", file_of(header, data_bytes)));
  return true;
}

std::string refusal(const std::string& header, size_t data_bytes = 8) {
  return refusal_of_bytes(file_of(header, data_bytes));
}

std::string entry(const std::string& name, const std::string& offsets, const std::string& shape = "[1]",
                  const std::string& dtype = "\"F32\"") {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::vector<float> read(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> values(file.entries().at(name).elements());
  file.read(name, values);
  return values;
}

SafetensorsTensor tensor(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
  return {name, std::move(shape), [values = std::move(values)] { return values; }};
}

// What safetensors 0.8.0 writes for the same tensors (safetensors.torch.save).
TEST(Safetensors, WritesTheBytesOfThePackage) {
  const ScratchFolder folder;
  EXPECT_EQ(write_safetensors(folder.path(), {tensor("b", {2, 3}, {1, 2, 3, 4, 5, 6}), tensor("a.bias", {1}, {-0.5})},
                              DType::f32, 1000),
            std::vector<std::string>{"model.safetensors"});
  const std::string f32(
      "\x98\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a.bias\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]}}      "
      "\0\0\0\xbf\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@\0\0\xc0@",
      8 + 0x98 + 28);
  EXPECT_EQ(folder.read("model.safetensors"), f32);
  const ScratchFolder other;
  write_safetensors(other.path(), {tensor("b", {2, 2}, {1, 2, 3.14159F, -1e-3F}), tensor("a", {1}, {0.1F})},
                    DType::bf16, 1000);
  const std::string bf16(
      "\x90\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[1],"
      "\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[2,10]}} "
      "\xcd=\x80?\0@I@\x83\xba",
      8 + 0x90 + 10);
  EXPECT_EQ(other.read("model.safetensors"), bf16);
  const SafetensorsFile file(other.path("model.safetensors"));
  EXPECT_EQ(read(file, "b"), (std::vector<float>{1, 2, 3.140625F, -0.000999450684F}));
}

TEST(Safetensors, RoundsToTheNearestBf16AndTiesToEven) {
  const ScratchFolder folder;
  const float largest = std::numeric_limits<float>::max();
  write_safetensors(folder.path(),
                    {tensor("a", {7}, {1 + 0x1p-8F, 1 + 0x3p-8F, 1 + 0x1.01p-8F, largest, -INFINITY, -0.0F, NAN})},
                    DType::bf16, 1000);
  const std::vector<float> values = read(SafetensorsFile(folder.path("model.safetensors")), "a");
  EXPECT_EQ(std::vector<float>(values.begin(), values.end() - 1),
            (std::vector<float>{1, 1 + 0x1p-6F, 1 + 0x1p-7F, INFINITY, -INFINITY, 0}));
  EXPECT_TRUE(std::signbit(values[5]));
  EXPECT_TRUE(std::isnan(values[6]));
}

TEST(Safetensors, RefusesTheWrongNumberOfValues) {
  const ScratchFolder folder;
  EXPECT_TRUE(contains(error_text<ValueError>([&] {
                         write_safetensors(folder.path(), {tensor("a", {3}, {1, 2})}, DType::f32, 1000);
                       }),
                       {"2 values for tensor a"}));
  const ScratchFolder other;
  write_safetensors(other.path(), {tensor("a", {2}, {1, 2})}, DType::f32, 1000);
  const SafetensorsFile file(other.path("model.safetensors"));
  std::vector<float> values(3);
  const auto reading = [&](const char* name) { return error_text<DataError>([&] { file.read(name, values); }); };
  EXPECT_TRUE(contains(reading("a"), {"model.safetensors\": tensor \"a\" has 2 elements, not 3"}));
  EXPECT_TRUE(contains(reading("b"), {"model.safetensors\" has no tensor \"b\""}));
}

TEST(Safetensors, ConvertsEachFloatingType) {
  const ScratchFolder folder;
  const auto stored = [&](const char* dtype, const std::string& data, int64_t elements) {
    const std::string header =
        "{" +
        entry("t", fmt::format("[0,{}]", data.size()), fmt::format("[{}]", elements), fmt::format("\"{}\"", dtype)) +
        "}";
    const SafetensorsFile file(folder.write("x", file_of(header, 0) + data));
    return read(file, "t");
  };
  // 1, -2, the largest, the smallest normal and subnormal numbers, infinity, -0.
  const uint16_t halves[] = {0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x7C00, 0x8000, 0x8001};
  const std::string bytes(reinterpret_cast<const char*>(halves), sizeof(halves));
  const std::vector<float> half = stored("F16", bytes, 8);
  EXPECT_EQ(half, (std::vector<float>{1, -2, 65504, 0x1p-14F, 0x1p-24F, INFINITY, 0, -0x1p-24F}));
  EXPECT_TRUE(std::signbit(half[6]));
  const uint16_t nan = 0x7E00;
  EXPECT_TRUE(std::isnan(stored("F16", std::string(reinterpret_cast<const char*>(&nan), 2), 1)[0]));
  const double doubles[] = {0.1, -3};
  EXPECT_EQ(stored("F64", std::string(reinterpret_cast<const char*>(doubles), 16), 2), (std::vector<float>{0.1F, -3}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { stored("I32", std::string(4, '\1'), 1); }),
                       {"tensor \"t\" is I32", "F64, F32, F16 and BF16"}));
}

TEST(Safetensors, SplitsLargeModels) {
  const ScratchFolder folder;
  const std::vector<SafetensorsTensor> tensors{tensor("a", {2}, {1, 2}), tensor("b", {3}, {3, 4, 5}),
                                               tensor("c", {1}, {6})};
  const std::vector<std::string> names = write_safetensors(folder.path(), tensors, DType::f32, 12);
  EXPECT_EQ(names, (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                             "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  const SafetensorsFolder all(folder.path());
  EXPECT_EQ(all.names(), (std::vector<std::string>{"a", "b", "c"}));
  std::vector<float> values(3);
  all.read("b", values);
  EXPECT_EQ(values, (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(all.find("d"), nullptr);
}

TEST(Safetensors, RefusesWhatTheFormatForbids) {
  const std::string good = entry("a", "[0,4]"), second = entry("b", "[4,8]");
  EXPECT_TRUE(is_accepted("{" + good + "," + second + "}  "));  // spaces may follow
  EXPECT_TRUE(is_accepted("{" + entry("a", "[0,0]", "[0,5]") + "," + entry("b", "[0,8]", "[2]") + "}"));
  EXPECT_TRUE(is_accepted("{" + entry("a", "[0,8]", "[]", "\"F64\"") + "}"));
  EXPECT_TRUE(contains(refusal_of_bytes("1234567"), {"7 bytes, too few"}));
  EXPECT_TRUE(
      contains(refusal_of_bytes(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)), {"header has", "at most"}));
  EXPECT_TRUE(contains(refusal_of_bytes(std::string("\x03\0\0\0\0\0\0\0{}", 10)), {"3 bytes, the file only 10"}));
  EXPECT_TRUE(contains(refusal_of_bytes(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)), {"at most 100000000"}));
  EXPECT_TRUE(contains(refusal(" {}", 0), {"begin with {"}));
  EXPECT_TRUE(contains(refusal("", 0), {"begin with {"}));
  EXPECT_TRUE(contains(refusal("[]", 0), {"begin with {"}));
  EXPECT_TRUE(contains(refusal("{]", 0), {"header is not JSON", "byte 2"}));
  EXPECT_TRUE(contains(refusal("{\"\xff\":1}", 0), {"header is not JSON"}));
  EXPECT_TRUE(contains(refusal("{}x", 0), {"header is not JSON", "byte 3"}));
  EXPECT_TRUE(contains(refusal("{" + good + "," + good + "}", 4), {"\"a\" twice"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,8]", "[2]", "\"F31\"") + "}"), {"dtype \"F31\" is unknown"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,8]", "[2]", "\"F\\n\"") + "}"), {"is unknown"}));
  EXPECT_TRUE(contains(refusal("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), {"\"dtype\" twice"}));
  EXPECT_TRUE(contains(refusal("{\"a\":[1]}"), {"tensor \"a\"", "must be an object"}));
  EXPECT_TRUE(contains(refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}"), {"dtype, shape and data_offsets"}));
  EXPECT_TRUE(
      contains(refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}"), {"no other"}));
  for (const char* shape :
       {"[-2]", "[2.0]", "[-0]", "[null]", "[\"2\"]", "[9223372036854775808]", "[18446744073709551616]"}) {
    EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,8]", shape) + "}"), {"must be integers from 0"})) << shape;
  }
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,8]", "[4294967296,4294967296]") + "}"), {"too many elements"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,8]", "[3]") + "}"), {"do not fit its dtype and shape"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[8,0]", "[2]") + "}"), {"data_offsets are 8 and 0"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,12]", "[3]") + "}"), {"8 bytes of data"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[0,8,8]", "[2]") + "}"), {"two numbers"}));
  EXPECT_TRUE(contains(refusal("{" + good + "," + entry("b", "[0,8]", "[2]") + "}"), {"overlaps"}));
  EXPECT_TRUE(contains(refusal("{" + good + "," + entry("b", "[0,4]") + "}", 4), {"overlaps"}));
  EXPECT_TRUE(contains(refusal("{" + second + "}"), {"\"b\" begins after bytes that belong to no tensor"}));
  EXPECT_TRUE(contains(refusal("{" + good + "}"), {"4 bytes at its end belong to no tensor"}));
  const std::string third = entry("c", "[8,12]");
  EXPECT_TRUE(contains(refusal("{" + good + "," + third + "}", 12), {"\"c\" begins after bytes that belong"}));
  EXPECT_TRUE(contains(refusal("{}", 1), {"1 bytes at its end belong to no tensor"}));
  EXPECT_TRUE(contains(refusal("{" + entry("a", "[-1,3]") + "}"), {"must be integers from 0"}));
  EXPECT_TRUE(contains(refusal("{\"__metadata__\":null," + good + "}", 4), {"__metadata__", "must be an object"}));
  EXPECT_TRUE(contains(refusal("{\"__metadata__\":{\"a\\n\":1}," + good + "}", 4), {"must be a string"}));
  EXPECT_TRUE(contains(refusal("{\"__metadata__\":{\"a\":1}," + good + "}", 4), {"__metadata__", "must be a string"}));
}

TEST(Safetensors, RefusesAnIndexThatDoesNotFit) {
  const auto make = [](const ScratchFolder& folder, const std::string& map) {
    std::filesystem::create_directory(folder.path("sub"));
    folder.write("sub/x", file_of("{" + entry("a", "[0,4]") + "}", 4));
    folder.write("x", file_of("{" + entry("a", "[0,4]") + "," + entry("b", "[4,8]") + "}", 8));
    folder.write("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": " + map + "}");
  };
  const auto with_index = [&](const std::string& map) {
    const ScratchFolder folder;
    make(folder, map);
    return error_text<DataError>([&] { const SafetensorsFolder all(folder.path()); });
  };
  const ScratchFolder good;
  make(good, "{\"a\": \"x\", \"b\": \"x\"}");
  EXPECT_EQ(SafetensorsFolder(good.path()).names().size(), 2u);
  for (const char* name : {"sub/x", "../x", "/etc/passwd", "", ".", "..", "a\\u0000b"}) {
    EXPECT_TRUE(contains(with_index(fmt::format("{{\"a\": \"{}\"}}", name)), {"must be a file of this folder"}))
        << name;
  }
  EXPECT_TRUE(contains(with_index("{\"a\": \"sub\"}"), {"sub\" is a folder"}));
  EXPECT_TRUE(contains(with_index("{\"a\": \"y\"}"), {"y\" cannot be opened"}));
  EXPECT_TRUE(contains(with_index("{\"a\": \"x\", \"c\": \"x\"}"), {"has no tensor \"c\"", "says it has"}));
  EXPECT_TRUE(contains(with_index("{\"a\": \"x\"}"), {"2 tensors, it names 1"}));
  EXPECT_TRUE(contains(with_index("{\"a\": 1}"), {"must be a string"}));
  EXPECT_TRUE(contains(with_index("[]"), {"must be an object"}));
  EXPECT_TRUE(contains(with_index("{\"a\": \"x\", \"a\": \"x\"}"), {"index.json\" has the key \"a\" twice"}));
}

// As in the cache of huggingface_hub, whose files are links out of the folder of the model.
TEST(Safetensors, FollowsLinksOutOfTheFolder) {
  const ScratchFolder blobs, model;
  blobs.write("blob", file_of("{" + entry("a", "[0,4]") + "}", 4));
  std::filesystem::create_symlink(blobs.path("blob"), model.path("x"));
  model.write("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"x\"}}");
  EXPECT_EQ(SafetensorsFolder(model.path()).names(), std::vector<std::string>{"a"});
}

TEST(Safetensors, RefusesAFolderWithoutAModel) {
  const ScratchFolder folder;
  const auto error = [&] { return error_text<DataError>([&] { const SafetensorsFolder all(folder.path()); }); };
  EXPECT_TRUE(contains(error(), {"model.safetensors\" cannot be opened"}));
  std::filesystem::create_symlink("model.safetensors", folder.path("model.safetensors"));
  EXPECT_TRUE(contains(error(), {"model.safetensors\" cannot be opened"}));
}

}  // namespace
}  // namespace heed::data
