// The check build: what each load and store of a kernel goes through.
#pragma once

#include <vector>

#include "src/cell.hpp"

namespace hostcuda {

// The memory that is watched. What lies where is set when the first memory is allocated and when a block begins.
struct Watched {
  uintptr_t begin;
  size_t bytes;
  Shadow shadow;
  bool owns(const void* address) const { return reinterpret_cast<uintptr_t>(address) - begin < bytes; }
};
extern Watched device_watch;
extern thread_local constinit Watched dynamic_watch;  // of the block that this OS thread runs

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

inline uint32_t place_in_code(const void* place) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) - code_begin);
}

template <Access kind, bool is_shared>
void check_cells(Shadow& shadow, const void* address, size_t bytes, const void* place) {
  Finding finding(address, bytes, kind, place);
  shadow.visit<kind != Access::read>(reinterpret_cast<uintptr_t>(address), bytes, [&](Cell& cell, uintptr_t at) {
    const Fault fault = fault_of<kind, is_shared>(cell);
    if (fault != Fault::none) [[unlikely]]
      finding.add(fault, cell, at);
    remember<kind, is_shared>(cell, place_in_code(place));
  });
  if (!finding.is_empty()) [[unlikely]]
    finding.report();
}

// An aligned word, most often one cell without a fault.
template <Access kind, bool is_shared>
inline void check_word(Shadow& shadow, const void* address, const void* place) {
  Cell* cell = shadow.whole_word(reinterpret_cast<uintptr_t>(address));
  if (cell != nullptr && fault_of<kind, is_shared>(*cell) == Fault::none) [[likely]] {
    remember<kind, is_shared>(*cell, place_in_code(place));
  } else {
    check_cells<kind, is_shared>(shadow, address, 4, place);
  }
}

// Memory that is neither the device's nor dynamic shared memory nor on the stack of the thread.
template <Access kind>
void check_elsewhere(const void* address, size_t bytes, const void* place);

// Of the running thread. is_word: 4 bytes, aligned.
template <Access kind, bool is_word = false>
inline void check(const void* address, size_t bytes, const void* place) {
  ++access_count;
  if (device_watch.owns(address)) {
    if (is_word) return check_word<kind, false>(device_watch.shadow, address, place);
    check_cells<kind, false>(device_watch.shadow, address, bytes, place);
  } else if (dynamic_watch.owns(address) && dynamic_watch.owns(static_cast<const char*>(address) + bytes - 1)) {
    if (is_word) return check_word<kind, true>(dynamic_watch.shadow, address, place);
    check_cells<kind, true>(dynamic_watch.shadow, address, bytes, place);
  } else if (!self->fiber.owns(address)) {
    check_elsewhere<kind>(address, bytes, place);
  }
}

extern template void check_elsewhere<Access::read>(const void*, size_t, const void*);
extern template void check_elsewhere<Access::write>(const void*, size_t, const void*);

}  // namespace hostcuda
