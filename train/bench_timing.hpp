// How often and how long something is timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace heed::train {

template <class F>
double seconds_of(F&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What timed() returns, its seconds, in rising order: enough calls to trust the middle one.
template <class F>
std::vector<double> repeat(F&& timed) {
  constexpr double kBudget = 0.2;
  constexpr size_t kLeast = 5, kMost = 1000;
  timed();
  std::vector<double> seconds;
  for (double spent = 0; seconds.size() < kLeast || (spent < kBudget && seconds.size() < kMost);) {
    seconds.push_back(timed());
    spent += seconds.back();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

inline double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

template <class F>
double median_seconds(F&& call) {
  return median(repeat([&] { return seconds_of(call); }));
}

// For ceilings: the best that was seen.
template <class F>
double best_seconds(F&& call) {
  return repeat([&] { return seconds_of(call); }).front();
}

}  // namespace heed::train
