// Timing loops of the benchmarks: how often and how long a call is timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "autograd/core/device.hpp"

namespace heed::train {

constexpr double kWarmUpSeconds = 0.5;  // of work, enough for the clocks of an idle device to rise

template <class F>
double seconds_of(F&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Calls timed(), which returns seconds, once to warm up, and then often enough for a reliable median, or for `budget`
// seconds if that is longer. Returns the seconds in ascending order.
template <class F>
std::vector<double> repeat(F&& timed, double budget = 0.2) {
  constexpr size_t kLeast = 5, kMost = 1000;
  timed();
  std::vector<double> seconds;
  for (double spent = 0; seconds.size() < kLeast || (spent < budget && seconds.size() < kMost);) {
    seconds.push_back(timed());
    spent += seconds.back();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

inline double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

// Seconds of one call on a device, in ascending order. On CUDA a graph with several captured calls is replayed, so that
// the host's launch overhead does not count; the call must be capturable. The first call in a process warms the device
// up.
std::vector<double> call_seconds(Device device, const std::function<void()>& call);

}  // namespace heed::train
