// The part of a serialized tokenizer that only kind file has: everything but the pieces (docs/formats.md, "Tokenizer").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_level_bpe.hpp"

namespace heed::data {

std::string serialize_rules(const ByteLevelBpeParts& parts);

// Throws DataError unless `rules` is an output of serialize_rules().
ByteLevelBpeParts parse_rules(std::vector<std::string> pieces, std::string_view rules);

}  // namespace heed::data
