// The build options and the instruction set of the CPU backend, for `heed info`.
#pragma once

#include <string>

namespace heed::cpu {

std::string gemm_library();     // "heed's own blocks and oneDNN 2.6.3, bf16 widened to f32"
std::string instruction_set();  // selected at run time (Highway target): "AVX3"
std::string thread_library();   // "OpenMP" or "std::thread"

}  // namespace heed::cpu
