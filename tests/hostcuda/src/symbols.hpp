// What the symbol table of the executable says: the names of kernels, the lines of code, and where __shared__ arrays
// lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hostcuda {

struct Symbol {
  uintptr_t begin;
  size_t bytes;
  const char* name;  // mangled
};

// Where the executable was loaded.
struct Image {
  uintptr_t base, begin, end;
  size_t thread_local_bytes;
};
const Image& image();

// The __shared__ arrays, as offsets into the thread-local memory of the executable, in ascending order.
const std::vector<Symbol>& shared_arrays();
const Symbol* find_symbol(const std::vector<Symbol>& symbols, uintptr_t address);
uintptr_t thread_local_begin();  // of the calling OS thread

std::string function_name(const void* function);      // without namespaces that have no name, and without parameters
std::string variable_name(const Symbol& symbol);      // of a variable inside a function
std::string source_line(const void* return_address);  // "a.cuh:12 in b.cu:30": what was inlined into what
std::string file_of(const std::string& path);

}  // namespace hostcuda
