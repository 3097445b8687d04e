// Contents and helpers for the tests of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>

#include "data/io/checksum.hpp"
#include "tests/train/tiny.hpp"
#include "train/checkpoint/checkpoint_file.hpp"

namespace heed::test {

using train::CheckpointContent;

// Little of every kind, with what is easily lost.
inline CheckpointContent sample_content(int64_t step = 7) {
  CheckpointContent content;
  content.tensors["parameters/blocks.0.attention.qkv.weight"] = full({3, 4}, DType::f32, 0.1);
  content.tensors["parameters/blocks.0.norm.weight"] = from_values({2}, DType::f32, {-0.0, 1e-45});
  content.tensors["adamw/first/blocks.0.norm.weight"] = from_values({1, 2, 1, 1, 1}, DType::f64, {0.1, 1e308});
  content.tensors["none"] = full({0}, DType::f64, 0);
  content.tensors["none.of.many"] = full({3, 0, 2}, DType::f32, 0);
  content.tensors["scalar"] = full({}, DType::f64, 1.0 / 3);
  content.tensors["ids"] = from_tokens({2}, {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()});
  const auto nan_with_payload = std::bit_cast<float>(uint32_t{0xFFA12345});
  content.tensors["odd"] = from_values({3}, DType::f32, {0, std::numeric_limits<double>::infinity(), 0});
  content.tensors["odd"].data<float>()[0] = nan_with_payload;
  content.integers["step"] = step;
  content.integers["data/smallest"] = std::numeric_limits<int64_t>::min();
  content.reals["nan"] = std::bit_cast<double>(uint64_t{0x7FF4000012345678});
  content.reals["minus_zero"] = -0.0;
  content.texts["config"] = "[model]\nnum_layers = 2\n";
  content.texts["any_bytes"] = std::string("\0a\xFF\n\0\0", 6);
  content.texts["empty"] = "";
  return content;
}

inline std::string bytes_of(const Tensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.numel() * size_bytes(tensor.dtype()));
  return bytes == 0 ? "" : std::string(static_cast<const char*>(tensor.ref().data), bytes);
}

inline void expect_same(const CheckpointContent& actual, const CheckpointContent& expected) {
  ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    const Tensor& found = actual.tensor(name, tensor.dtype(), tensor.shape());
    EXPECT_TRUE(bytes_of(found) == bytes_of(tensor)) << name;
  }
  EXPECT_EQ(actual.integers, expected.integers);
  ASSERT_EQ(actual.reals.size(), expected.reals.size());
  for (const auto& [name, real] : expected.reals) {
    EXPECT_EQ(std::bit_cast<uint64_t>(actual.real(name)), std::bit_cast<uint64_t>(real)) << name;
  }
  EXPECT_TRUE(actual.texts == expected.texts);
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);  // to cut off and fill a file again makes ext4 wait for the disk
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush()) << path;
}

// A first block that fits the bytes behind it.
inline std::string sealed(std::string_view bytes) {
  const std::string_view content = bytes.substr(train::kBlockBytes);
  const auto content_bytes = static_cast<int64_t>(content.size());
  const auto block = train::encode_block({content_bytes, data::checksum(content.data(), content_bytes)});
  return std::string(block.data(), block.size()) + std::string(content);
}

// The text of the CheckpointError that an action ends with.
template <class Action>
std::string checkpoint_error(Action run) {
  try {
    run();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

// Loading and verifying must both refuse the file, with the same one line that names it and the reason.
inline void expect_refused(const std::filesystem::path& path, const std::string& reason) {
  const std::string error = checkpoint_error([&] { train::load_checkpoint(path); });
  EXPECT_EQ(train::verify_checkpoint(path).value_or("accepted"), error);
  EXPECT_NE(error.find("cannot read checkpoint " + std::filesystem::absolute(path).string() + ": "), std::string::npos)
      << error;
  EXPECT_NE(error.find(reason), std::string::npos) << error << "\nshould say: " << reason;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

inline void expect_text(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nshould say: " << part;
}

// The names of the files in a folder.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace heed::test
