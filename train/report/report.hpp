// `heed report`: a run or a sweep as one HTML page that refers to nothing outside, to keep or to send.
#pragma once

#include <filesystem>
#include <string>

namespace heed::train {

// Writes the page of a run folder, or of the folder of a sweep. The same files give the same bytes, as far as
// matplotlib is the same. Returns why the page has no picture of the curves, such as a missing matplotlib; empty if it
// has one. Throws ConfigError, before anything is changed, if the folder holds neither, or if the file exists and is no
// report that heed made (train/run/run_mark.hpp); DataError for a damaged file of the folder; Error if the page cannot
// be written.
std::string write_report(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace heed::train
