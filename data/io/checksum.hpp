// XXH64 with seed 0: tells whether bytes are still those that were written.
//
// A change goes unnoticed with a probability of about 2^-64; it is no protection against intent. xxhsum -H1 prints the
// same number. Of nothing it is 0xEF46DB3751D8E999.
// Collet, "XXH64 algorithm description" (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heed::data {

class Checksum {
 public:
  Checksum();
  // Adds bytes behind those already given; how they are cut into calls makes no difference.
  void update(const void* data, int64_t bytes);
  uint64_t value() const;

 private:
  static constexpr int64_t kStripeBytes = 32;

  std::array<uint64_t, 4> lanes_;
  std::array<unsigned char, kStripeBytes> rest_{};  // the last total_bytes_ % 32 bytes
  int64_t total_bytes_ = 0;
};

uint64_t checksum(const void* data, int64_t bytes);
uint64_t checksum(std::string_view bytes);

}  // namespace heed::data
