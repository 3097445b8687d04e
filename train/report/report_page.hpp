// The two kinds of pages of heed report.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::train {

struct ReportPage {
  std::string title;
  std::string main;        // HTML after the title
  std::string no_picture;  // why the curves are not drawn; empty if they are
};

// folder: that of a run, which has a summary.json. Throws ConfigError if it has none, DataError for a damaged file.
ReportPage run_page(const std::filesystem::path& folder);

// folder: that of a sweep. Throws ConfigError if no results are in it yet, DataError for a damaged file.
ReportPage sweep_page(const std::filesystem::path& folder);

// Adds the picture that heed plot draws of the folder, or a sentence with the reason if it cannot be drawn.
void add_curves(ReportPage& page, const std::filesystem::path& folder, std::string_view caption);

}  // namespace heed::train
