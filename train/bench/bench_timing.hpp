// How often and how long something is timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "autograd/core/device.hpp"

namespace heed::train {

template <class F>
double seconds_of(F&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What timed() returns, its seconds, in rising order: enough calls to trust the middle one, and `budget` seconds of
// them where that is more.
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

// Seconds of one call on a device, in rising order. On CUDA the call is recorded some times over and replayed, so that
// the time in which the host gives the work to the device does not count; what the call does must be fit for that.
std::vector<double> call_seconds(Device device, const std::function<void()>& call);

}  // namespace heed::train
