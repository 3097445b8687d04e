// The version of heed: shown by --version, and stored in the files that heed writes.
#pragma once

namespace heed::train {

extern const char* const kVersion;  // as in CMakeLists.txt: "1.2.3"

}  // namespace heed::train
