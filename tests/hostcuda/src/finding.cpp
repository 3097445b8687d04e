// The check build: shadows that take memory only where they are used, and the texts of what was found.
#include <sys/mman.h>

#include <set>
#include <utility>

#include "src/check.hpp"
#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {
namespace {

constexpr size_t kReportsOfALaunch = 10;

Cell* reserve_cells(size_t count) {
  return reinterpret_cast<Cell*>(reserve(count * sizeof(Cell), PROT_READ | PROT_WRITE));
}

std::string line_of(uint32_t place) {
  return " [" + source_line(reinterpret_cast<const void*>(code_begin + place)) + "]";
}

const char* verb_of(Access kind) {
  if (kind == Access::read) return "reads";
  return kind == Access::atomic ? "updates" : "writes";
}

// Who made the access that a stamp is of.
std::string who(uint64_t stamp, uint32_t place) {
  const bool several = (stamp & kReaders) != 0, other_block = interval_of(stamp) < now.first_of_block;
  return (several ? "several threads" : format("thread %u", thread_of(stamp))) +
         (other_block ? " of another block" : "") + line_of(place);
}

// Is it the first report in this launch about these two places?
bool is_new(uint32_t place, uint32_t other_place) {
  static std::set<std::pair<uint32_t, uint32_t>> reported;
  static uint32_t launch = 0;
  if (std::exchange(launch, now.first_of_launch) != now.first_of_launch) reported.clear();
  return reported.size() < kReportsOfALaunch && reported.insert({place, other_place}).second;
}

}  // namespace

void Shadow::cover(uintptr_t begin, size_t bytes) {
  const size_t words = bytes / 4 + 1;
  begin_ = begin;
  words_ = reserve_cells(words);
  halves_ = reserve_cells(words);
  odd_bytes_ = reserve_cells(2 * words);
}

void Shadow::forget(uintptr_t page, size_t bytes) {
  const size_t first = (page - begin_) / 4, count = bytes / 4;
  madvise(words_ + first, count * sizeof(Cell), MADV_DONTNEED);  // zeros again
  madvise(halves_ + first, count * sizeof(Cell), MADV_DONTNEED);
  madvise(odd_bytes_ + 2 * first, 2 * count * sizeof(Cell), MADV_DONTNEED);
}

void Finding::add(Fault fault, const Cell& cell, uintptr_t address) {
  if (fault == Fault::no_memory) {
    hostcuda::report("bounds", multiprocessor->where(*self) + format(": %s %zu bytes at ", verb_of(kind_), bytes_) +
                                   describe(address_) + " [" + source_line(place_) + "]");
    multiprocessor->abandon_block();
  }
  if (!is_empty()) return;
  fault_ = fault;
  fault_address_ = address;
  cell_ = cell;
}

void Finding::report() const {
  const bool after_read = fault_ == Fault::after_read;
  const uint64_t other = fault_ == Fault::never_written ? 0 : after_read ? cell_.read : cell_.write;
  const uint32_t other_place = other == 0 ? 0 : after_read ? cell_.read_place : cell_.write_place;
  const auto place = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place_) - code_begin);
  if (!is_new(place, other_place)) return;
  const char* kind = "race";
  std::string what = verb_of(kind_);
  switch (fault_) {
    case Fault::never_written:
      kind = "uninit";
      what += " memory that was never written";
      break;
    case Fault::in_flight:
      kind = "async";
      what += " memory with a cp.async in flight, issued by " + who(other, other_place);
      break;
    case Fault::after_write:
      what += " what is written without order by " + who(other, other_place);
      break;
    default:
      what += " what is read without order by " + who(other, other_place);
  }
  hostcuda::report(kind, multiprocessor->where(*self) + ": " + what + ": " +
                             describe(reinterpret_cast<const void*>(fault_address_)) + line_of(place));
}

}  // namespace hostcuda
