#include "train/run/version.hpp"

const char* const heed::train::kVersion = HEED_VERSION;
