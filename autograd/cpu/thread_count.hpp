// The default number of threads of the process, and the reason for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heed::cpu {

struct ThreadCount {
  enum class Reason { affinity, quota, variable, too_many };
  int threads = 1;
  Reason reason = Reason::affinity;
  int cpus = 1;                  // in the affinity mask
  std::optional<double> quota;   // CPU quota of the cgroups, in CPUs; nullopt if unlimited
  std::optional<int64_t> asked;  // value of OMP_NUM_THREADS, if valid
};

// Parses the value of OMP_NUM_THREADS: the first number of a list ("4,2" is 4), at most INT64_MAX. Returns nullopt if
// the variable counts as unset: nullptr, empty, or a value that OpenMP does not accept (0, -1, 1.5, abc).
std::optional<int64_t> threads_asked_for(const char* omp_num_threads);

// Number of CPUs in the affinity mask of the process; at least 1.
int affinity_cpus();

// Number of threads for a CPU quota: 1 for 0.5 and 1 CPU, 2 for 1.5. One thread more than the whole CPUs of the quota
// pays off if a good part of a CPU is left for it. Otherwise the quota runs out and all threads are throttled together
// in each period.
int threads_for_quota(double quota_cpus);

// OMP_NUM_THREADS if set, up to kThreadsPerCpu * cpus: more threads would only wait for each other, and thousands of
// them exhaust memory. Otherwise the number of CPUs: of the affinity mask, or of the quota if that is lower.
inline constexpr int kThreadsPerCpu = 4;
ThreadCount choose_threads(int cpus, std::optional<double> quota, const char* omp_num_threads);

// "2 threads", "1 thread (CPU quota 1.0 of 2 CPUs)", "8 threads (OMP_NUM_THREADS = 100000, at most 4 times 2 CPUs)"
std::string describe(const ThreadCount& count);

}  // namespace heed::cpu
