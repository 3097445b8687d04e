// Whether an access is in order with those that a cell remembers, and what the cell remembers afterwards.
#pragma once

#include "src/shadow.hpp"

namespace hostcuda {

// When and where in the run of a kernel the current thread stands.
struct Moment {
  uint64_t stamp;  // see shadow.hpp
  uint32_t interval, first_of_block, first_of_launch;
};
extern thread_local constinit Moment now;

enum class Fault : uint8_t { none, no_memory, never_written, in_flight, after_write, after_read };

// Could the access that left the stamp and the current one come in either order?
template <bool is_shared>
bool is_unordered(uint64_t stamp) {
  const uint32_t interval = interval_of(stamp);
  if (interval < now.first_of_block) return !is_shared && interval >= now.first_of_launch;  // another block's
  if ((stamp & kReaders) == kManyBlocks) return true;
  if (interval < now.interval) return false;  // a barrier lies between
  if ((stamp & kReaders) == kManyWarps) return true;
  const unsigned other = thread_of(stamp), mine = thread_of(now.stamp);
  if (other == mine && (stamp & kReaders) == 0) return false;
  return other / kWarp != mine / kWarp || epoch_of(stamp) >= epoch_of(now.stamp);
}

// One stamp for the current access and for those that the earlier stamp stands for.
template <bool is_shared>
uint64_t merge(uint64_t earlier) {
  if (!is_unordered<is_shared>(earlier)) return now.stamp;
  if (interval_of(earlier) < now.first_of_block || (earlier & kReaders) == kManyBlocks) return now.stamp | kManyBlocks;
  const bool same_warp = thread_of(earlier) / kWarp == thread_of(now.stamp) / kWarp;
  if ((earlier & kReaders) == kManyWarps || !same_warp) return now.stamp | kManyWarps;
  return now.stamp | kSameWarp;
}

// Shared memory begins anew with each block, so nothing needs to be reset for it.
template <bool is_shared>
bool is_written(const Cell& cell) {
  return interval_of(cell.write) > kNeverWritten && (!is_shared || interval_of(cell.write) >= now.first_of_block);
}

template <Access kind>
bool are_both_atomic(const Cell& cell) {
  return kind == Access::atomic && (cell.write & kAtomic) != 0;
}

template <Access kind, bool is_shared>
Fault fault_of(const Cell& cell) {
  if (!is_shared && interval_of(cell.write) == kNoMemory) return Fault::no_memory;
  const bool written = is_written<is_shared>(cell);
  if (!written && (kind == Access::read || kind == Access::atomic)) return Fault::never_written;
  if (written) {
    if (kind != Access::end_copy && (cell.write & kInFlight) != 0) return Fault::in_flight;
    if (!are_both_atomic<kind>(cell) && is_unordered<is_shared>(cell.write)) return Fault::after_write;
  }
  if (kind != Access::read && is_unordered<is_shared>(cell.read)) return Fault::after_read;
  return Fault::none;
}

template <Access kind, bool is_shared>
void remember(Cell& cell, uint32_t place) {
  if (kind == Access::read) {
    cell.read = merge<is_shared>(cell.read);
    cell.read_place = place;
    return;
  }
  if (kind == Access::atomic) {
    cell.write = (are_both_atomic<kind>(cell) ? merge<is_shared>(cell.write) : now.stamp) | kAtomic;
  } else {
    cell.write = now.stamp | (kind == Access::begin_copy ? kInFlight : 0);
  }
  cell.write_place = place & 0x3FFFFFFFu;
  cell.read = 0;
}

}  // namespace hostcuda
