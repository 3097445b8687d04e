#include "train/comm/process_group.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/comm/launch.hpp"

namespace heed::comm {
namespace {

std::array<char, 256> host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name;
}

}  // namespace

void ProcessGroup::watch(const Launch& launch, double timeout_s) {
  heartbeat_ = std::make_unique<HeartbeatPage>(launch.job, rank_, size_, launch.folder);
  watchdog_ = std::make_unique<Watchdog>(*heartbeat_, timeout_s);
}

void ProcessGroup::rendezvous_complete() {
  const auto hosts = gather(host_name());
  const auto& own = hosts[static_cast<size_t>(rank_)];
  std::vector<bool> elsewhere;
  for (const auto& host : hosts) elsewhere.push_back(host != own);
  // Counted here, since not every launcher sets the local rank.
  local_rank_ = static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank_, own));
  watchdog_->set_elsewhere(elsewhere);
  heartbeat_->unlink();
}

void ProcessGroup::gather(const void* mine, int64_t bytes, void* all) {
  const Waiting waiting(*this, "the all-gather of host values");
  gather_bytes(mine, bytes, all);
}

std::vector<std::string> ProcessGroup::gather_texts(const std::string& mine) {
  const std::vector<int64_t> lengths = gather(static_cast<int64_t>(mine.size()));
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine, all(static_cast<size_t>(longest * size_), '\0');
  padded.resize(static_cast<size_t>(longest));
  gather(padded.data(), longest, all.data());
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(all.substr(rank * static_cast<size_t>(longest), static_cast<size_t>(lengths[rank])));
  }
  return texts;
}

void ProcessGroup::barrier() { gather('\0'); }

void ProcessGroup::set_step(int64_t step) {
  step_ = step;
  if (watchdog_) watchdog_->set_step(step);
}

Waiting::Waiting(ProcessGroup& ranks, const char* what) {
  if (ranks.watchdog() != nullptr) wait_.emplace(*ranks.watchdog(), what);
}

void share_processors(ProcessGroup& ranks) {
  if (ranks.size() == 1) return;
  struct Place {
    std::array<char, 256> host;
    cpu_set_t processors;
  };
  Place mine{.host = host_name(), .processors = {}};
  const bool is_known = sched_getaffinity(0, sizeof(mine.processors), &mine.processors) == 0;
  int sharing = 0;
  for (const Place& place : ranks.gather(mine)) {
    cpu_set_t common;
    CPU_AND(&common, &mine.processors, &place.processors);
    if (place.host == mine.host && CPU_COUNT(&common) > 0) ++sharing;
  }
  // Only after the gather, which is collective: the variable may be set on some ranks only.
  if (!is_known || cpu::threads_asked_for(std::getenv("OMP_NUM_THREADS"))) return;
  // Ranks with overlapping affinity masks are assumed to share the CPU quota too: a launcher starts them in one
  // container.
  const int cpus = CPU_COUNT(&mine.processors);
  cpu::set_max_threads(std::max(1, cpu::choose_threads(cpus, cpu_quota(), nullptr).threads / sharing));
}

}  // namespace heed::comm
