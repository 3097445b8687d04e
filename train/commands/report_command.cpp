#include <filesystem>

#include "train/commands/commands.hpp"
#include "train/output/output.hpp"
#include "train/report/report.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {

namespace fs = std::filesystem;

void run_report(const ReportOptions& options) {
  const fs::path folder = options.folder;
  const fs::path file = options.output.empty() ? folder / kReportFile : fs::path(options.output);
  const std::string no_picture = write_report(folder, file);
  print("{}{}\n", file.string(), no_picture.empty() ? "" : fmt::format(" (without curves: {})", no_picture));
}

}  // namespace heed::train
