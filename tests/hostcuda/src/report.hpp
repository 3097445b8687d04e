// Faults: what was found so far, and the error that the CUDA functions give after one.
#pragma once

#include <cuda_runtime_api.h>
#include <hostcuda.h>

#include <string>

namespace hostcuda {

std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));

// Kinds that a kernel cannot survive leave an error for all further calls, as on a GPU; after the others it goes on.
void report(const char* kind, const std::string& text);

// The error that a fault left, cudaSuccess if none.
cudaError_t fault_error();

// Remembers the error for cudaGetLastError and gives it back.
cudaError_t fail(cudaError_t error);
// What a call returns that worked: the error of an earlier fault if there was one.
cudaError_t result();

// An unsigned number from the environment. Ends the process where it is something else.
uint64_t environment_number(const char* name, uint64_t otherwise);
[[noreturn]] void give_up(const std::string& text);

}  // namespace hostcuda
