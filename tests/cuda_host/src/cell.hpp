// Whether an access is in order with those that a cell remembers.
#pragma once

#include "tests/cuda_host/src/shadow.hpp"

namespace hostcuda {

struct Problem {
  const char *kind = nullptr, *what = nullptr;
  uint64_t other = 0;  // the stamp and the place of the access that this one collides with, if it is one
  uint32_t other_place = 0;
};

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

template <bool is_shared>
Problem read_cell(Cell& cell, uint32_t place) {
  Problem problem;
  if (!is_written<is_shared>(cell)) {
    problem = {"uninit", "reads memory that was never written"};
  } else if ((cell.write & kInFlight) != 0) {
    problem = {"async", "reads memory with a cp.async in flight, issued by", cell.write, cell.write_place};
  } else if (is_unordered<is_shared>(cell.write)) {
    problem = {"race", "reads what is written without order by", cell.write, cell.write_place};
  }
  cell.read = merge<is_shared>(cell.read);
  cell.read_place = place;
  return problem;
}

template <Access kind, bool is_shared>
Problem write_cell(Cell& cell, uint32_t place) {
  Problem problem;
  const bool written = is_written<is_shared>(cell), both_atomic = kind == Access::atomic && (cell.write & kAtomic) != 0;
  if (kind == Access::atomic && !written) {
    problem = {"uninit", "updates memory that was never written"};
  } else if (kind != Access::end_copy && written && (cell.write & kInFlight) != 0) {
    problem = {"async", "writes memory with a cp.async in flight, issued by", cell.write, cell.write_place};
  } else if (written && !both_atomic && is_unordered<is_shared>(cell.write)) {
    problem = {"race", "writes what is written without order by", cell.write, cell.write_place};
  } else if (is_unordered<is_shared>(cell.read)) {
    problem = {"race", "writes what is read without order by", cell.read, cell.read_place};
  }
  if (kind == Access::atomic) {
    cell.write = (both_atomic ? merge<is_shared>(cell.write) : now.stamp) | kAtomic;
  } else {
    cell.write = now.stamp | (kind == Access::begin_copy ? kInFlight : 0);
  }
  cell.write_place = place & 0x3FFFFFFFu;
  cell.read = 0;
  return problem;
}

}  // namespace hostcuda
