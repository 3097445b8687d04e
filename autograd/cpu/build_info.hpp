// What the CPU backend was built with and runs on, for `heed info`.
#pragma once

#include <string>

namespace heed::cpu {

std::string gemm_library();     // "heed's own blocks and oneDNN 2.6.3" or "heed's own blocks"
std::string instruction_set();  // the one chosen at run time, "AVX3"
std::string thread_library();   // "OpenMP" or "std::thread"

}  // namespace heed::cpu
