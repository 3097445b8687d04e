// Error texts for a table or a key that the schema does not have: what the user probably meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heed::train {

std::string unknown_table_text(std::string_view table);

// Names the key's own table if it stands in the wrong one, else heed's key for a name of nanoGPT, litgpt or Hugging
// Face, else the nearest key by edit distance if one is near. The table is empty for a key that was given without one.
std::string unknown_key_text(std::string_view table, std::string_view name);

// Insertions, deletions and replacements of a character that turn a into b (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b);
// Whether a name at this distance from what was written is worth a hint: at most a third of the characters is wrong.
bool is_near(std::size_t distance, std::string_view written);

}  // namespace heed::train
