#include "data/io/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace heed::data {
namespace {

std::string sample_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (uint64_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((i * 2654435761) >> 13);
  return bytes;
}

// Made with XXH64() of libxxhash 0.8.1, seed 0.
TEST(ChecksumTest, IsXxh64) {
  EXPECT_EQ(checksum(""), 0xEF46DB3751D8E999);
  EXPECT_EQ(checksum("abc"), 0x44BC2CF5AD770999);
  const std::pair<size_t, uint64_t> expected[] = {
      {1, 0xE934A84ADB052768},   {3, 0x28823E205E353F69},   {4, 0x91B65BBE720C34CF},  {7, 0xE2400CDEA02EE3C5},
      {8, 0x521FD2878EA69D17},   {31, 0xB74BAA9042B94DEE},  {32, 0x4E13111CED6F735D}, {33, 0xF7B9FAF20B3BCE63},
      {100, 0xD61EA92C5AE13676}, {1000, 0xB260521730B6D8D9}};
  for (const auto& [count, value] : expected) EXPECT_EQ(checksum(sample_bytes(count)), value) << count;
}

TEST(ChecksumTest, DoesNotDependOnHowTheBytesAreCut) {
  const std::string bytes = sample_bytes(200);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (const size_t second : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{65}}) {
      const size_t middle = std::min(second, bytes.size() - first);
      Checksum sum;
      sum.update(bytes.data(), static_cast<int64_t>(first));
      sum.update(bytes.data() + first, static_cast<int64_t>(middle));
      sum.update(bytes.data() + first + middle, static_cast<int64_t>(bytes.size() - first - middle));
      ASSERT_EQ(sum.value(), checksum(bytes)) << first << " " << second;
    }
  }
}

TEST(ChecksumTest, EveryBitCounts) {
  const std::string bytes = sample_bytes(100);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(checksum(changed), checksum(bytes)) << bit;
  }
}

}  // namespace
}  // namespace heed::data
