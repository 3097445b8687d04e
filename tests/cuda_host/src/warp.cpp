// Barriers, votes and shuffles under CUDA's names.
#include <bit>

#include "tests/cuda_host/src/engine.hpp"
#include "tests/cuda_host/src/report.hpp"

namespace hostcuda {
namespace {

struct ShuffleLane {
  uint64_t given, received;
  Shuffle kind;
  int argument, width;
  bool found;
};

// The lane whose value `lane` receives: its own where the wanted one lies outside of its segment.
unsigned source_lane(const ShuffleLane& request, int lane) {
  const int first = lane & ~(request.width - 1), end = first + request.width;
  int source = lane;
  switch (request.kind) {
    case Shuffle::from_lane:
      source = first + (request.argument & (request.width - 1));
      break;
    case Shuffle::up:
      source = lane - request.argument < first ? lane : lane - request.argument;
      break;
    case Shuffle::down:
      source = lane + request.argument >= end ? lane : lane + request.argument;
      break;
    case Shuffle::exchange:
      source = (lane ^ request.argument) >= end ? lane : lane ^ request.argument;
      break;
  }
  return static_cast<unsigned>(source);
}

void lead_shuffle(Warp&, const WarpOperation& operation) {
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((operation.arrived >> lane & 1) == 0) continue;
    auto& request = *static_cast<ShuffleLane*>(operation.arguments[lane]);
    const unsigned source = source_lane(request, static_cast<int>(lane));
    request.found = source < kWarp && (operation.arrived >> source & 1) != 0;
    if (request.found) request.received = static_cast<const ShuffleLane*>(operation.arguments[source])->given;
  }
}

struct BallotLane {
  bool predicate;
  unsigned result;
};

void lead_ballot(Warp&, const WarpOperation& operation) {
  unsigned bits = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((operation.arrived >> lane & 1) == 0) continue;
    if (static_cast<const BallotLane*>(operation.arguments[lane])->predicate) bits |= 1u << lane;
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((operation.arrived >> lane & 1) != 0) static_cast<BallotLane*>(operation.arguments[lane])->result = bits;
  }
}

// Only a __syncwarp of all lanes counts as an order between them: one of a few would need a clock for each lane.
void lead_syncwarp(Warp& warp, const WarpOperation& operation) {
  if (operation.arrived == warp.present) ++warp.epoch;
}

}  // namespace

uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t bits, int argument, int width, Site site) {
  constexpr const char* kNames[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"};
  const char* name = kNames[static_cast<int>(kind)];
  const bool width_is_valid = width > 0 && width <= 32 && std::has_single_bit(static_cast<unsigned>(width));
  ShuffleLane lane{bits, 0, kind, argument, width_is_valid ? width : 32, false};
  multiprocessor->warp_operation(name, mask, site, &lane, lead_shuffle);
  if (lane.found && width_is_valid) return lane.received;
  const std::string why = width_is_valid
                              ? format("reads a lane that mask %08x does not name or that does not exist", mask)
                              : format("width %d is no power of two up to 32", width);
  report("warp", multiprocessor->where(*self) + ": " + name + " " + describe(site) + ": " + why);
  multiprocessor->abandon_block();
}

}  // namespace hostcuda

using hostcuda::multiprocessor;

void __syncthreads(hostcuda::Site site) { multiprocessor->barrier("__syncthreads", false, site); }
int __syncthreads_count(int predicate, hostcuda::Site site) {
  return multiprocessor->barrier("__syncthreads_count", predicate != 0, site);
}
int __syncthreads_or(int predicate, hostcuda::Site site) {
  return multiprocessor->barrier("__syncthreads_or", predicate != 0, site) > 0;
}
int __syncthreads_and(int predicate, hostcuda::Site site) {
  return multiprocessor->barrier("__syncthreads_and", predicate == 0, site) == 0;
}
void __syncwarp(unsigned mask, hostcuda::Site site) {
  multiprocessor->warp_operation("__syncwarp", mask, site, nullptr, hostcuda::lead_syncwarp);
}
unsigned __ballot_sync(unsigned mask, int predicate, hostcuda::Site site) {
  hostcuda::BallotLane lane{predicate != 0, 0};
  multiprocessor->warp_operation("__ballot_sync", mask, site, &lane, hostcuda::lead_ballot);
  return lane.result;
}
unsigned __activemask() { return 1u << hostcuda::self->lane; }
