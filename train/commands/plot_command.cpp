#include <filesystem>

#include "autograd/core/check.hpp"
#include "train/commands/commands.hpp"
#include "train/config/config_value.hpp"
#include "train/output/output.hpp"
#include "train/plot/plot.hpp"
#include "train/run/past_step.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {

namespace fs = std::filesystem;

void run_plot(const PlotOptions& options) {
  std::vector<std::string> folders;
  for (const std::string& folder : options.folders) {
    require<ConfigError>(!folder.empty(), "run is \"\", it must be the folder of a run or of a sweep");
    folders.push_back(expand_home(folder));
  }
  fs::path file = options.output;
  // A part of a run does not replace the picture of the whole.
  const bool is_one_whole = folders.size() == 1 && !parse_run_step(folders.front());
  if (file.empty()) file = is_one_whole ? fs::path(folders.front()) / kPlotFile : fs::path(kPlotFile);
  plot_runs(folders, file);
  print("{}\n", file.string());
}

}  // namespace heed::train
