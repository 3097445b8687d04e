// The check build: what each load and store of a kernel goes through.
#pragma once

#include <vector>

#include "tests/cuda_host/src/cell.hpp"

namespace hostcuda {

// The memory that is watched. What lies where is set when the first memory is allocated and when a block begins.
struct Watched {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Shadow shadow;
  bool owns(const void* address) const { return reinterpret_cast<uintptr_t>(address) - begin < bytes; }
};
extern Watched device_watch;

extern uint64_t access_count;
extern const uintptr_t code_begin;  // places in the code are kept as 32 bits from here

// The first fault of an access.
class Finding {
 public:
  Finding(const void* address, size_t bytes, Access kind, const void* place)
      : address_(address), bytes_(bytes), kind_(kind), place_(place) {}
  bool is_empty() const { return fault_ == Fault::none; }
  void add(Fault fault, const Cell& cell, uintptr_t address);  // gives the block up where there is no memory
  void report() const;

 private:
  const void* address_;
  size_t bytes_;
  Access kind_;
  const void* place_;
  Fault fault_ = Fault::none;
  uintptr_t fault_address_ = 0;
  Cell cell_{};
};

template <Access kind, bool is_shared>
inline void check_cells(Shadow& shadow, const void* address, size_t bytes, const void* place) {
  const auto in_code = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) - code_begin);
  Finding finding(address, bytes, kind, place);
  shadow.visit<kind != Access::read>(reinterpret_cast<uintptr_t>(address), bytes, [&](Cell& cell, uintptr_t at) {
    const Fault fault = fault_of<kind, is_shared>(cell);
    if (fault != Fault::none) [[unlikely]]
      finding.add(fault, cell, at);
    remember<kind, is_shared>(cell, in_code);
  });
  if (!finding.is_empty()) [[unlikely]]
    finding.report();
}

// Memory that is neither the device's nor on the stack of the thread.
template <Access kind>
void check_elsewhere(const void* address, size_t bytes, const void* place);

// Of the running thread.
template <Access kind>
inline void check(const void* address, size_t bytes, const void* place) {
  ++access_count;
  if (device_watch.owns(address)) {
    check_cells<kind, false>(device_watch.shadow, address, bytes, place);
  } else if (!self->fiber.owns(address)) {
    check_elsewhere<kind>(address, bytes, place);
  }
}

extern template void check_elsewhere<Access::read>(const void*, size_t, const void*);
extern template void check_elsewhere<Access::write>(const void*, size_t, const void*);

}  // namespace hostcuda
