// `heed info`: what this build can do, and the devices that it sees.
#pragma once

#include <string>

namespace heed::train {

void run_info();

}  // namespace heed::train
