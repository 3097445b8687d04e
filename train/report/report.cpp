#include "train/report/report.hpp"

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/plot/arm_list.hpp"
#include "train/plot/plot.hpp"
#include "train/plot/plot_document.hpp"
#include "train/report/html.hpp"
#include "train/report/report_page.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {

namespace fs = std::filesystem;

void add_curves(ReportPage& page, const fs::path& folder, std::string_view caption) {
  try {
    const std::string svg = draw_picture(plot_document({folder.string()}), "svg");
    page.main += html_svg(svg, "Curves over the training steps: " + page.title, caption);
    return;
  } catch (const PythonError& error) {
    page.no_picture = error.what();
  } catch (const ConfigError& error) {  // no step is done yet
    page.no_picture = error.what();
  }
  page.main += html_paragraph("The curves are not drawn here: " + page.no_picture + ".");
}

std::string write_report(const fs::path& folder, const fs::path& file) {
  require<ConfigError>(may_replace_report(file), "{} exists, and heed report did not write it: move it away",
                       data::quoted_path(file.string()));
  const ReportPage page = is_sweep(folder) ? sweep_page(folder) : run_page(folder);
  try {
    data::write_file_durably(file, html_page(page.title, page.main));
  } catch (const CheckpointError& error) {
    throw Error(fmt::format("cannot write {}: {}", data::quoted_path(file.string()), error.what()));
  }
  return page.no_picture;
}

}  // namespace heed::train
