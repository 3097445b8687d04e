#include "train/bench/bench_timing.hpp"

#include <cmath>
#include <cstdint>
#include <mutex>

#include "autograd/core/context.hpp"
#include "autograd/core/cuda_backend.hpp"

namespace heed::train {
namespace {

constexpr double kLeastSeconds = 5e-3;  // between two clock readings, which cost some ten microseconds

int64_t times_for(double seconds, int64_t most) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kLeastSeconds / std::max(seconds, 1e-9))), 1, most);
}

std::vector<double> replay_seconds(const std::function<void()>& call) {
  constexpr int64_t kMostCalls = 32, kMostReplays = 1000;
  constexpr double kBudget = 0.05;
  const auto waited = [](const std::function<void()>& work) {
    return seconds_of([&] {
      work();
      synchronize(Device::cuda);
    });
  };
  waited(call);  // warm-up: selects algorithms and allocates memory
  const int64_t calls = times_for(waited(call), kMostCalls);
  cuda::Graph graph;
  graph.record([&] {
    for (int64_t i = 0; i < calls; ++i) call();
  });
  const auto replay = [&](int64_t times) {
    return waited([&] {
      for (int64_t i = 0; i < times; ++i) graph.replay();
    });
  };
  double warm_up = replay(1);
  static std::once_flag is_warm;
  std::call_once(is_warm, [&] {
    while (warm_up < kWarmUpSeconds) warm_up += replay(1);
  });
  const int64_t times = times_for(replay(1), kMostReplays);
  std::vector<double> seconds = repeat([&] { return replay(times); }, kBudget);
  for (double& s : seconds) s /= static_cast<double>(times * calls);
  return seconds;
}

}  // namespace

std::vector<double> call_seconds(Device device, const std::function<void()>& call) {
  if (device == Device::cuda) return replay_seconds(call);
  return repeat([&] { return seconds_of(call); });
}

}  // namespace heed::train
