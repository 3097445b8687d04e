// CUDA emulation: who a thread is, how threads wait for each other, warp operations and atomics.
#pragma once

#include <vector_types.h>

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

// Constants for a kernel, so that the check build does not look at each use of them; position.cpp sets them. Sizes have
// no constructor here, or the compiler would not take them for constants.
extern thread_local constinit const uint3 threadIdx, blockIdx, blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace hostcuda {

using Site = std::source_location;  // where a kernel waits, for reports
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

enum class Shuffle { from_lane, up, down, exchange };
uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t bits, int argument, int width, Site site);

template <class T>
inline constexpr bool kIsShuffled = std::is_arithmetic_v<T>;  // cuda_bf16.h adds its types

template <class T>
T shuffle_value(Shuffle kind, unsigned mask, T value, int argument, int width, Site site) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(kind, mask, bits, argument, width, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace hostcuda

// ---- Waiting --------------------------------------------------------------------------------------------------------
void __syncthreads(hostcuda::Site site = hostcuda::Site::current());
int __syncthreads_count(int predicate, hostcuda::Site site = hostcuda::Site::current());
int __syncthreads_and(int predicate, hostcuda::Site site = hostcuda::Site::current());
int __syncthreads_or(int predicate, hostcuda::Site site = hostcuda::Site::current());
void __syncwarp(unsigned mask = hostcuda::kAllLanes, hostcuda::Site site = hostcuda::Site::current());
// Blocks run one after another, so fences have nothing to do.
inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] void __trap();

// ---- Warps ----------------------------------------------------------------------------------------------------------
unsigned __ballot_sync(unsigned mask, int predicate, hostcuda::Site site = hostcuda::Site::current());
inline int __any_sync(unsigned mask, int predicate, hostcuda::Site site = hostcuda::Site::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, hostcuda::Site site = hostcuda::Site::current()) {
  return __ballot_sync(mask, !predicate, site) == 0;
}
// The weakest answer that hardware may give: no other lane runs.
unsigned __activemask();

template <class T>
requires hostcuda::kIsShuffled<T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
                                                hostcuda::Site site = hostcuda::Site::current()) {
  return hostcuda::shuffle_value(hostcuda::Shuffle::from_lane, mask, value, lane, width, site);
}
template <class T>
requires hostcuda::kIsShuffled<T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                                   hostcuda::Site site = hostcuda::Site::current()) {
  return hostcuda::shuffle_value(hostcuda::Shuffle::up, mask, value, static_cast<int>(delta), width, site);
}
template <class T>
requires hostcuda::kIsShuffled<T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                                     hostcuda::Site site = hostcuda::Site::current()) {
  return hostcuda::shuffle_value(hostcuda::Shuffle::down, mask, value, static_cast<int>(delta), width, site);
}
template <class T>
requires hostcuda::kIsShuffled<T> T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                                                    hostcuda::Site site = hostcuda::Site::current()) {
  return hostcuda::shuffle_value(hostcuda::Shuffle::exchange, mask, value, lane_mask, width, site);
}

// ---- Atomics --------------------------------------------------------------------------------------------------------

// Of integers only: a sum of floats in any order is not the same sum again.
int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
int atomicMax(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
unsigned long long atomicMax(unsigned long long* address, unsigned long long value);
int atomicMin(int* address, int value);
unsigned atomicMin(unsigned* address, unsigned value);
int atomicOr(int* address, int value);
unsigned atomicOr(unsigned* address, unsigned value);
int atomicExch(int* address, int value);
unsigned atomicExch(unsigned* address, unsigned value);
int atomicCAS(int* address, int expected, int desired);
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned desired);

// ---- Memory hints ---------------------------------------------------------------------------------------------------
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}
