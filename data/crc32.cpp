#include "data/crc32.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace heed::data {

namespace {

static_assert(std::endian::native == std::endian::little, "files of heed are little-endian, as is this code");

using Table = std::array<uint32_t, 256>;

// tables[k][b]: what byte b does to the checksum k bytes later.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

// Eight bytes a step, each through the table of its distance from the end of the eight: Kounavis and Berry 2005,
// "A systematic approach to building high performance software-based CRC generators" (ISCC).
uint32_t crc32(std::string_view bytes, uint32_t so_far) {
  uint32_t crc = ~so_far;
  const char* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    uint64_t word = 0;
    std::memcpy(&word, next, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> (8 * k) & 0xFF];
  }
  for (; left > 0; --left, ++next) crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<uint8_t>(*next)) & 0xFF];
  return ~crc;
}

}  // namespace heed::data
