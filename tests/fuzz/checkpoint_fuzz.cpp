// libFuzzer on the checkpoint reader, in memory.
//
// The first byte chooses what the others are:
// - a file as it is, which must be refused or have matching checksums;
// - a file whose first block gets fitting checksums, so that what stands behind them is reached too;
// - names and values of a content, which must be refused or come back as they were, in as many bytes as announced.
// HDF5 never sees bytes that heed did not make: it may crash on them, which is why the checksums come before it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "data/io/checksum.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/hdf5_image.hpp"

namespace {

using namespace heed;
using namespace heed::train;
using heed::data::checksum;
using heed::test::Bytes, heed::test::expect;

// As the reader does it, up to where HDF5 would begin.
bool accepts(std::string_view file) {
  try {
    const auto bytes = static_cast<int64_t>(file.size());
    const CheckpointBlock block = decode_block(file.substr(0, kBlockBytes), bytes);
    require_checksum(block, checksum(file.data() + kBlockBytes, block.content_bytes));
    expect(block.content_bytes == bytes - kBlockBytes);
    return true;
  } catch (const CheckpointError&) {
    return false;
  }
}

void try_file(std::string_view file) {
  if (!accepts(file)) return;
  const auto content_bytes = static_cast<int64_t>(file.size()) - kBlockBytes;
  const auto block = encode_block({content_bytes, checksum(file.data() + kBlockBytes, content_bytes)});
  expect(file.substr(0, kBlockBytes) == std::string_view(block.data(), block.size()));
}

void try_with_fitting_checksums(std::string_view bytes) {
  std::string file(bytes);
  if (file.size() < static_cast<size_t>(kBlockBytes)) file.resize(kBlockBytes);
  std::memcpy(file.data(), "heed checkpoint\n", 16);
  const uint64_t content = checksum(file.data() + kBlockBytes, static_cast<int64_t>(file.size()) - kBlockBytes);
  std::memcpy(file.data() + 32, &content, sizeof(content));
  const uint64_t block = checksum(file.data(), kBlockBytes - 8);
  std::memcpy(file.data() + kBlockBytes - 8, &block, sizeof(block));
  try_file(file);
}

Tensor make_tensor(Bytes& bytes) {
  Shape shape;
  for (int rank = bytes.number() % 6; rank > 0; --rank) shape = shape.with_appended(bytes.number() % 4);
  Tensor tensor = zeros(shape, bytes.number() % 2 == 0 ? DType::f32 : DType::f64);
  const std::string values = bytes.text();
  const auto room = static_cast<size_t>(tensor.numel() * size_bytes(tensor.dtype()));
  if (room > 0) std::memcpy(tensor.ref().data, values.data(), std::min(room, values.size()));
  return tensor;
}

CheckpointContent make_content(Bytes bytes) {
  CheckpointContent content;
  while (!bytes.empty()) {
    const int kind = bytes.number() % 4;
    const std::string name = bytes.text();
    if (kind == 0) content.tensors[name] = make_tensor(bytes);
    if (kind == 1) content.integers[name] = bytes.number() - 128;
    if (kind == 2) content.reals[name] = bytes.number() / 7.0;
    if (kind == 3) content.texts[name] = bytes.text();
  }
  return content;
}

void expect_same(const CheckpointContent& actual, const CheckpointContent& expected) {
  expect(actual.integers == expected.integers && actual.reals == expected.reals && actual.texts == expected.texts);
  expect(actual.tensors.size() == expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    const Tensor& found = actual.tensor(name, tensor.dtype(), tensor.shape());
    const auto bytes = static_cast<size_t>(tensor.numel() * size_bytes(tensor.dtype()));
    expect(bytes == 0 || std::memcmp(found.ref().data, tensor.ref().data, bytes) == 0);
  }
}

void try_content(std::string_view bytes) {
  const CheckpointContent content = make_content(Bytes(bytes));
  try {
    require_storable(content);
  } catch (const ValueError&) {
    return;
  }
  const std::string image = content_to_image(content);
  expect(static_cast<int64_t>(image.size()) == image_bytes(content));
  expect_same(image_to_content(image), content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) try_file(bytes);
  if (data[0] % 3 == 1) try_with_fitting_checksums(bytes);
  if (data[0] % 3 == 2) try_content(bytes);
  return 0;
}
