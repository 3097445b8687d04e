// The version of heed: shown by --version, and stored in the files that heed writes.
#pragma once

namespace heed::train {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace heed::train
