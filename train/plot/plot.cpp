#include "train/plot/plot.hpp"

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/plot/plot_document.hpp"
#include "train/plot/plot_script.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {

namespace fs = std::filesystem;

std::string draw_picture(const std::string& document, const std::string& format) {
  std::string picture = run_python(plot_script(), {format}, document);
  require<PythonError>(picture.starts_with(format == "svg" ? "<?xml " : "\x89PNG"), "python3 did not draw a picture");
  return picture;
}

std::string picture_format(const fs::path& file) {
  const std::string ending = file.extension().string();
  require<ConfigError>(ending == ".svg" || ending == ".png", "the picture {} must be a file that ends in .svg or .png",
                       data::quoted_path(file.string()));
  return ending.substr(1);
}

void require_replaceable(const fs::path& file) {
  require<ConfigError>(may_replace_picture(file), "{} exists, and heed did not draw it: move it away",
                       data::quoted_path(file.string()));
}

void write_picture(const fs::path& file, std::string_view picture) {
  require_replaceable(file);
  try {
    data::write_file_durably(file, picture);
  } catch (const CheckpointError& error) {
    throw Error(fmt::format("cannot write {}: {}", data::quoted_path(file.string()), error.what()));
  }
}

void plot_runs(const std::vector<std::string>& folders, const fs::path& file) {
  const std::string format = picture_format(file);
  require_replaceable(file);  // an error without delay
  write_picture(file, draw_picture(plot_document(folders), format));
}

std::string plot_at_end(const fs::path& folder) {
  const fs::path file = folder / kPlotFile;
  try {
    plot_runs({folder.string()}, file);
    return "plot          " + file.string();
  } catch (const std::exception& error) {
    return fmt::format("plot          none: {}", error.what());
  }
}

std::string png_at_end(const fs::path& folder) {
  try {
    return draw_picture(plot_document({folder.string()}), "png");
  } catch (const std::exception&) {
    return {};  // plot_at_end() has said why
  }
}

}  // namespace heed::train
