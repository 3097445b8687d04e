// `heed info`: the features of this build, and the available devices.
#pragma once

#include <string>

namespace heed::train {

void run_info();

}  // namespace heed::train
