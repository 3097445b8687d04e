// CRC-32 as in zlib and Ethernet: reflected polynomial 0xEDB88320, start and end inverted. It finds every run of damage
// up to 32 bits and misses 1 in 2^32 of all others; it is no protection against intent.
#pragma once

#include <cstdint>
#include <string_view>

namespace heed::data {

// The checksum of what `so_far` is the checksum of, followed by bytes; of bytes alone with so_far = 0.
uint32_t crc32(std::string_view bytes, uint32_t so_far = 0);

}  // namespace heed::data
