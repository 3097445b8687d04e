// Barriers, votes and shuffles under CUDA's names.
#include "src/engine.hpp"
#include "src/report.hpp"

namespace hostcuda {
namespace {

struct ShuffleLane {
  uint64_t given, received;
  int argument, width;
  bool found;
};

// The lane whose value `lane` receives: its own where the wanted one lies outside of its segment.
template <Shuffle kind>
int source_lane(const ShuffleLane& request, int lane) {
  const int first = lane & -request.width, end = first + request.width;
  if (kind == Shuffle::from_lane) return first + (request.argument & (request.width - 1));
  const int source = kind == Shuffle::up     ? lane - request.argument
                     : kind == Shuffle::down ? lane + request.argument
                                             : lane ^ request.argument;
  const bool is_outside = kind == Shuffle::up ? source < first : source >= end;
  return is_outside ? lane : source;
}

template <Shuffle kind>
void lead_shuffle(Warp&, const WarpOperation& operation) {
  for (int lane = 0; lane < static_cast<int>(kWarp); ++lane) {
    if ((operation.arrived >> lane & 1) == 0) continue;
    auto& request = *static_cast<ShuffleLane*>(operation.arguments[static_cast<size_t>(lane)]);
    const auto source = static_cast<size_t>(source_lane<kind>(request, lane));
    request.found = source < kWarp && (operation.arrived >> source & 1) != 0;
    if (request.found) request.received = static_cast<const ShuffleLane*>(operation.arguments[source])->given;
  }
}

struct KindOfShuffle {
  const char* name;
  void (*lead)(Warp&, const WarpOperation&);
};
constexpr KindOfShuffle kShuffles[] = {{"__shfl_sync", lead_shuffle<Shuffle::from_lane>},
                                       {"__shfl_up_sync", lead_shuffle<Shuffle::up>},
                                       {"__shfl_down_sync", lead_shuffle<Shuffle::down>},
                                       {"__shfl_xor_sync", lead_shuffle<Shuffle::exchange>}};

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
  if (operation.arrived != warp.present) return;
  if (warp.epoch == kMaxEpoch) give_up("more __syncwarp between two barriers than can be numbered");
  ++warp.epoch;
}

}  // namespace

uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t bits, int argument, int width, Site site) {
  const auto& [name, lead] = kShuffles[static_cast<int>(kind)];
  const bool width_is_valid = width > 0 && width <= 32 && (width & (width - 1)) == 0;
  ShuffleLane lane{bits, 0, argument, width_is_valid ? width : 32, false};
  multiprocessor->warp_operation(name, mask, site, &lane, lead);
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
