// The names of bytes in the vocabulary files of byte-level BPE (GPT-2): printable bytes of Latin-1 stand for
// themselves, the 68 others are U+0100 to U+0143, in order. A space is "Ġ", a line feed "Ċ".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heed::data {

// The name of a token of these bytes.
std::string byte_level_name(std::string_view bytes);

// The inverse; nullopt for a name with any other character.
std::optional<std::string> bytes_of_name(std::string_view name);

}  // namespace heed::data
