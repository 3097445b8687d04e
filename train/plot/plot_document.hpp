// The JSON document of the figures "runs" and "sweep" of plot.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace heed::train {

// The arms of a sweep in its folder, for readers without the sweep file: their names and the folders of their runs.
struct ArmEntry {
  std::string folder;  // in runs/, without blanks
  std::string name;
};
inline constexpr const char* kArmsFile = ".heed/arms";
std::string arms_text(const std::vector<ArmEntry>& arms);
// Throws ConfigError if the sweep folder has no such file.
std::vector<ArmEntry> read_arms(const std::filesystem::path& sweep_folder);

// {"figure": "runs" or, if a folder is that of a sweep, "sweep",
//  "title", "subtitle", "entropies": [{"name", "nats"}], "quantity": "excess" or "val_loss",
//  "groups": [{"name", "train_loss", "train_loss_smoothed", "val_loss", "learning_rate", "grad_norm",
//              "grad_norm_smoothed", "tokens_per_s": each {"steps": [], "values": [], "sd": []},
//              "final": {"values": [], "mean", "sd"}}]}
// A group is one run, or the runs of an arm: its curves are means over the runs. Only a single run has train_loss and
// grad_norm, with every step. Throws what plot_runs() throws for its folders.
std::string plot_document(const std::vector<std::string>& folders);

}  // namespace heed::train
