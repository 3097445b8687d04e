// Pictures of runs and sweeps: C++ reads the files and computes the curves, a Python script (plot.py, part of the
// program) draws them with matplotlib. The same files give the same bytes, as far as matplotlib is the same.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/plot/python.hpp"

namespace heed::train {

// The bytes of a picture. document: a JSON object; its "figure" names the function of plot.py that draws it, which says
// what else it must hold. format: "svg" or "png". Throws PythonError.
std::string draw_picture(const std::string& document, const std::string& format);

// The format that the ending of a file name stands for. Throws ConfigError for another ending than .svg and .png.
std::string picture_format(const std::filesystem::path& file);

// Writes a picture durably. Throws ConfigError, before anything is changed, if the file exists and is no picture that
// heed made (train/run/run_mark.hpp), Error if it cannot be written.
void require_replaceable(const std::filesystem::path& file);
void write_picture(const std::filesystem::path& file, std::string_view picture);

// Draws runs into one file, which may exist only as a picture of heed.
// folders: run folders, also of runs that are going on, have failed or were killed; RUN@STEP, a run up to that step; or
// folders of sweeps, whose runs are grouped by arm. Throws ConfigError for a folder without a run or for the file,
// DataError for a damaged file of a run, PythonError, Error if the picture cannot be written.
void plot_runs(const std::vector<std::string>& folders, const std::filesystem::path& file);

// plot_runs() of one folder into its plot.svg. Returns what a log says about it, the file or why there is none, since
// no run fails for lack of a picture: "plot          runs/x/plot.svg".
std::string plot_at_end(const std::filesystem::path& folder);
// The same picture as the bytes of a PNG; empty if it cannot be drawn.
std::string png_at_end(const std::filesystem::path& folder);

}  // namespace heed::train
