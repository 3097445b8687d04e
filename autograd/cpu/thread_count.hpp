// How many threads this process should use, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heed::cpu {

struct ThreadCount {
  enum class Reason { affinity, quota, variable, too_many };
  int threads = 1;
  Reason reason = Reason::affinity;
  int cpus = 1;                  // that the affinity mask allows
  std::optional<double> quota;   // CPUs that the control groups grant, where they are limited
  std::optional<int64_t> asked;  // by OMP_NUM_THREADS
};

// The number that the value of OMP_NUM_THREADS asks for, the first of a list ("4,2" is 4); at most INT64_MAX. Nothing
// where the variable counts as not set: nullptr, empty, or what OpenMP does not accept (0, -1, 1.5, abc).
std::optional<int64_t> threads_asked_for(const char* omp_num_threads);

// CPUs of this process's affinity mask; at least 1.
int affinity_cpus();

// Threads that make good use of a CPU quota: 1 for 0.5 and 1 CPU, 2 for 1.5. A thread more than the quota has CPUs is
// worth it where a good part of it is left over; where none is, all threads are stopped together in each period.
int threads_for_quota(double quota_cpus);

// OMP_NUM_THREADS decides where it is set, up to kThreadsPerCpu times `cpus`; more threads would only wait for each
// other, and thousands of them exhaust memory. Without it the CPUs decide: those of the mask, or of the quota if fewer.
inline constexpr int kThreadsPerCpu = 4;
ThreadCount choose_threads(int cpus, std::optional<double> quota, const char* omp_num_threads);

// "2 threads", "1 thread (CPU quota 1.0 of 2 CPUs)", "8 threads (OMP_NUM_THREADS = 100000, at most 4 times 2 CPUs)"
std::string describe(const ThreadCount& count);

}  // namespace heed::cpu
