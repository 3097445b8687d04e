#include "data/io/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace heed::data {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63, kPrime5 = 0x27D4EB2F165667C5;

static_assert(std::endian::native == std::endian::little, "load() takes the first byte as the lowest");
template <class Word>
uint64_t load(const unsigned char* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint64_t mix(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kPrime2, 31) * kPrime1; }

void add_stripe(std::array<uint64_t, 4>& lanes, const unsigned char* stripe) {
  for (size_t i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], load<uint64_t>(stripe + 8 * i));
}

uint64_t join(const std::array<uint64_t, 4>& lanes) {
  uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes) hash = (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

uint64_t add_rest(uint64_t hash, const unsigned char* next, int64_t bytes) {
  for (; bytes >= 8; bytes -= 8, next += 8) {
    hash = std::rotl(hash ^ mix(0, load<uint64_t>(next)), 27) * kPrime1 + kPrime4;
  }
  for (; bytes >= 4; bytes -= 4, next += 4) {
    hash = std::rotl(hash ^ (load<uint32_t>(next) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; bytes > 0; --bytes, ++next) hash = std::rotl(hash ^ (*next * kPrime5), 11) * kPrime1;
  return hash;
}

}  // namespace

Checksum::Checksum() : lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1} {}

void Checksum::update(const void* data, int64_t bytes) {
  const auto* next = static_cast<const unsigned char*>(data);
  const int64_t held = total_bytes_ % kStripeBytes;
  total_bytes_ += bytes;
  if (held > 0) {
    const int64_t taken = std::min(bytes, kStripeBytes - held);
    std::copy_n(next, taken, rest_.begin() + held);
    if (held + taken < kStripeBytes) return;
    add_stripe(lanes_, rest_.data());
    next += taken;
    bytes -= taken;
  }
  for (; bytes >= kStripeBytes; bytes -= kStripeBytes, next += kStripeBytes) add_stripe(lanes_, next);
  std::copy_n(next, bytes, rest_.begin());
}

uint64_t Checksum::value() const {
  uint64_t hash = total_bytes_ >= kStripeBytes ? join(lanes_) : kPrime5;
  hash = add_rest(hash + static_cast<uint64_t>(total_bytes_), rest_.data(), total_bytes_ % kStripeBytes);
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t checksum(const void* data, int64_t bytes) {
  Checksum sum;
  sum.update(data, bytes);
  return sum.value();
}

uint64_t checksum(std::string_view bytes) { return checksum(bytes.data(), static_cast<int64_t>(bytes.size())); }

}  // namespace heed::data
