// Error texts for a table or a key that the schema does not have: what the user probably meant.
#pragma once

#include <string>
#include <string_view>

namespace heed::train {

std::string unknown_table_text(std::string_view table);

// Names the key's own table if it stands in the wrong one, else heed's key for a name of nanoGPT, litgpt or Hugging
// Face, else the nearest key by edit distance if one is near. The table is empty for a key that was given without one.
std::string unknown_key_text(std::string_view table, std::string_view name);

}  // namespace heed::train
