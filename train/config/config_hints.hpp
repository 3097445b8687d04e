// Error messages for unknown tables and keys, with the one that the user probably meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heed::train {

std::string unknown_table_text(std::string_view table);

// Suggests the table of the key if it is in the wrong one, else heed's equivalent of a key of nanoGPT, litgpt or
// Hugging Face, else the nearest key by edit distance if one is near. `table` is empty for a key that was given without
// one.
std::string unknown_key_text(std::string_view table, std::string_view name);

// Levenshtein distance: insertions, deletions and replacements of a character that turn a into b (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b);
// Whether a name at this distance from `written` is worth a hint: at most a third of the characters (rounded up)
// differ.
bool is_near(std::size_t distance, std::string_view written);

}  // namespace heed::train
