// cp.async: what was issued lands when the thread waits for it, the latest moment that the hardware may choose.
#include <hostcuda_ptx.h>

#include <cstring>

#include "src/access.hpp"
#include "src/engine.hpp"
#include "src/report.hpp"

namespace hostcuda::ptx {
namespace {

constexpr size_t kBytes = 16;

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kBytes == 0; }

}  // namespace

void cp_async_16(void* shared, const void* global, bool valid, Site site) {
  Thread& thread = *self;
  if (!is_aligned(shared) || (valid && !is_aligned(global))) {
    report("bounds",
           multiprocessor->where(thread) + ": cp.async " + describe(site) + ": an address is not aligned to 16 bytes");
    multiprocessor->abandon_block();
  }
  const void* place = __builtin_return_address(0);
  if (valid) check_access(thread, global, kBytes, Access::read, place);
  check_access(thread, shared, kBytes, Access::begin_copy, place);
  std::memset(shared, 0xFF, kBytes);
  thread.copies.push_back(
      {static_cast<unsigned char*>(shared), static_cast<const unsigned char*>(global), valid, place});
}

void cp_async_commit() { self->group_ends.push_back(self->copies.size()); }

void cp_async_wait(int pending) {
  Thread& thread = *self;
  if (static_cast<int>(thread.group_ends.size()) <= pending) return;
  const auto groups = static_cast<std::ptrdiff_t>(thread.group_ends.size()) - pending;
  const size_t landing = thread.group_ends[static_cast<size_t>(groups - 1)];
  for (size_t i = 0; i < landing; ++i) {
    const AsyncCopy& copy = thread.copies[i];
    check_access(thread, copy.to, kBytes, Access::end_copy, copy.place);
    if (copy.valid) {
      std::memcpy(copy.to, copy.from, kBytes);
    } else {
      std::memset(copy.to, 0, kBytes);
    }
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<std::ptrdiff_t>(landing));
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + groups);
  for (size_t& end : thread.group_ends) end -= landing;
}

}  // namespace hostcuda::ptx
