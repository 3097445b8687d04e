#include "train/ablate/shares.hpp"

#include <algorithm>
#include <cstdlib>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/core/host_limits.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/output/number_text.hpp"
#include "train/trainer/factory.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

// What the processes of a run need of the host, at most 90 % of what is free.
int64_t jobs_that_fit(const Sweep& sweep) {
  int64_t largest = 1;
  for (const Arm& arm : sweep.arms) {
    largest = std::max(largest, estimate_memory(arm.config, choose_device(arm.config)).total());
  }
  const auto limit = memory_limit();
  return limit ? std::max<int64_t>(1, limit->free_bytes / 10 * 9 / largest) : kMostRuns;
}

std::vector<std::string> visible_devices() {
  std::vector<std::string> names;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string list = visible == nullptr ? "" : visible;
  for (size_t i = 0; i < cuda::status().devices.size(); ++i) {
    const size_t comma = std::min(list.find(','), list.size());
    names.push_back(visible == nullptr ? fmt::format("{}", i) : list.substr(0, comma));
    list.erase(0, std::min(comma + 1, list.size()));
  }
  return names;
}

}  // namespace

Shares share_machine(const Sweep& sweep, int64_t wanted) {
  Shares shares;
  const auto cpus = static_cast<int64_t>(cpu::max_threads());
  const auto on_cuda = [](const Arm& arm) { return choose_device(arm.config) == Device::cuda; };
  if (std::any_of(sweep.arms.begin(), sweep.arms.end(), on_cuda)) shares.devices = visible_devices();
  const int64_t natural = shares.devices.empty() ? cpus : static_cast<int64_t>(shares.devices.size());
  shares.jobs = std::min(wanted > 0 ? wanted : natural, sweep.num_runs());
  const int64_t fitting = shares.devices.empty() ? jobs_that_fit(sweep) : shares.jobs;
  if (wanted == 0 && fitting < shares.jobs) {
    shares.notice =
        fmt::format("memory is enough for {} at a time (--jobs sets another number)", plural(fitting, "run"));
    shares.jobs = fitting;
  }
  shares.threads = std::max<int64_t>(1, cpus / shares.jobs);
  return shares;
}

}  // namespace heed::train
