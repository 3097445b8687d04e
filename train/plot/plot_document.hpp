// The JSON document of the figures "runs" and "sweep" of plot.py.
#pragma once

#include <string>
#include <vector>

namespace heed::train {

// {"figure": "runs" or, if a folder is that of a sweep, "sweep",
//  "title", "subtitles": [], "entropies": [{"name", "nats"}], "quantity": "excess" or "val_loss",
//  "groups": [{"name", "train_loss", "train_loss_smoothed", "val_loss", "learning_rate", "grad_norm",
//              "grad_norm_smoothed", "tokens_per_s": each {"steps": [], "values": [], "sd": []},
//              "final": {"values": [], "mean", "sd"}}]}
// A group is one run, or the runs of an arm: its curves are means over the runs. Only a single run has train_loss and
// grad_norm, with every step. Throws what plot_runs() throws for its folders.
std::string plot_document(const std::vector<std::string>& folders);

}  // namespace heed::train
