// Threads of the CPU backend: OpenMP if it is part of the build (then oneDNN uses the same thread pool), else
// std::thread.
//
// Kernels must be deterministic for any number of threads: the result of an index must not depend on the range that
// contains it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace heed::cpu {

// A non-owning reference to a callable, valid for the duration of one call.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Maximum number of threads of the process: set_max_threads(), else OMP_NUM_THREADS, else the number of CPUs available
// to the process (its affinity mask and the CPU quota of its cgroups). Never exceeds OMP_THREAD_LIMIT.
int max_threads();
// max_threads() and the reason for it: "1 thread (CPU quota 1.0 of 2 CPUs)".
std::string describe_threads();
// Throws ValueError if threads < 1.
void set_max_threads(int threads);
// Must be called before a library that divides its work by omp_get_max_threads() (oneDNN). It sets that number to
// max_threads() and disables dynamic adjustment, so that OpenMP does not start fewer threads than the library expects
// (as with OMP_DYNAMIC or OMP_THREAD_LIMIT): parts of the result would never be written. Affects the calling thread
// only.
void keep_promised_threads();

// Calls body(begin, end) on disjoint ranges that cover [0, n); if there are several, each has at least `grain` indices.
// Runs on the calling thread if n < 2 * grain or inside another parallel region. body must not throw.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);
// Calls body(i, thread) for each i of [0, n), for tasks of uneven size, with work stealing. Each thread first processes
// its own chunk of [0, n), the one that parallel_for would assign to it with as many threads, so that its caches still
// hold the data it wrote there before. Then it takes leftover tasks of other threads. 0 <= thread <
// min(n, most_threads, max_threads()).
void parallel_tasks(int64_t n, int64_t most_threads, FunctionRef<void(int64_t, int64_t)> body);

// Grain of simple elementwise loops: fewer elements are not worth waking another thread.
inline constexpr int64_t kElementwiseGrain = 16384;

// The default number of threads of the process, and the reason for it: choose_threads() makes it, describe() puts it in
// words.
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
