// XXH64 checksum (seed 0), to detect changed bytes.
//
// The probability of an undetected change is about 2^-64. The checksum does not protect against deliberate changes.
// `xxhsum -H1` prints the same value. The checksum of an empty input is 0xEF46DB3751D8E999.
// Collet, "XXH64 algorithm description" (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heed::data {

class Checksum {
 public:
  Checksum();
  // Appends bytes to the input. The value does not depend on how the input is split into calls.
  void update(const void* data, int64_t bytes);
  uint64_t value() const;

 private:
  static constexpr int64_t kStripeBytes = 32;

  std::array<uint64_t, 4> lanes_;
  std::array<unsigned char, kStripeBytes> rest_{};  // the last total_bytes_ % kStripeBytes bytes
  int64_t total_bytes_ = 0;
};

uint64_t checksum(const void* data, int64_t bytes);
uint64_t checksum(std::string_view bytes);

}  // namespace heed::data
