// The text of plot.py. CMakeLists.txt makes the source of this function from it.
#pragma once

#include <string>

namespace heed::train {

std::string plot_script();

}  // namespace heed::train
