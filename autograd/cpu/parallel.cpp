#include "autograd/cpu/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/core/control_group.hpp"
#include "autograd/cpu/thread_count.hpp"

#if HEED_HAVE_OPENMP
#include <omp.h>
#else
#include <thread>
#endif

namespace heed::cpu {
namespace {

std::atomic<int> set_limit = 0;  // of set_max_threads(); 0: not set

// Computed once, before heed itself binds or limits any thread.
const ThreadCount& chosen_threads() {
#if HEED_HAVE_OPENMP
  const int cpus = omp_get_num_procs();  // also correct if OMP_PROC_BIND has bound this thread to one CPU
#else
  const int cpus = affinity_cpus();
#endif
  static const ThreadCount count = choose_threads(cpus, cpu_quota(), std::getenv("OMP_NUM_THREADS"));
  return count;
}

#if HEED_HAVE_OPENMP
int system_limit() { return omp_get_thread_limit(); }
bool inside_parallel() { return omp_in_parallel() != 0; }

void run_on_threads(int threads, FunctionRef<void(int)> body) {
  // OpenMP may start fewer threads than requested (OMP_THREAD_LIMIT, OMP_DYNAMIC); every id must still run.
#pragma omp parallel num_threads(threads)
  for (int id = omp_get_thread_num(); id < threads; id += omp_get_num_threads()) body(id);
}
#else
thread_local bool in_worker = false;

int system_limit() { return std::numeric_limits<int>::max(); }
bool inside_parallel() { return in_worker; }

void run_on_threads(int threads, FunctionRef<void(int)> body) {
  const auto work = [&](int id) {
    in_worker = true;
    body(id);
    in_worker = false;
  };
  std::vector<std::thread> workers;
  for (int id = 1; id < threads; ++id) workers.emplace_back(work, id);
  work(0);
  for (std::thread& worker : workers) worker.join();
}
#endif

}  // namespace

int max_threads() {
  const int set = set_limit;
  return std::min(set > 0 ? set : chosen_threads().threads, system_limit());
}

std::string describe_threads() {
  const int threads = max_threads();
  ThreadCount count;
  if (threads == chosen_threads().threads) count = chosen_threads();
  count.threads = threads;
  return describe(count);
}

void set_max_threads(int threads) {
  require<ValueError>(threads >= 1, "{} threads, there must be at least 1", threads);
  set_limit = threads;
}

void keep_promised_threads() {
#if HEED_HAVE_OPENMP
  omp_set_dynamic(0);
  if (omp_get_max_threads() != max_threads()) omp_set_num_threads(max_threads());
#endif
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  const int64_t most = n / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(most, max_threads()));
  if (threads <= 1 || inside_parallel()) {
    body(0, n);
    return;
  }
  run_on_threads(threads, [&](int id) {
    const int64_t begin = n * id / threads, end = n * (id + 1) / threads;
    if (begin < end) body(begin, end);
  });
}

void parallel_tasks(int64_t n, int64_t most_threads, FunctionRef<void(int64_t, int64_t)> body) {
  const auto threads = static_cast<int>(std::min({n, most_threads, static_cast<int64_t>(max_threads())}));
  if (threads <= 1 || inside_parallel()) {
    for (int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  const auto first = [&](int share) { return n * share / threads; };
  std::vector<std::atomic<int64_t>> next(static_cast<size_t>(threads));
  for (int share = 0; share < threads; ++share) next[static_cast<size_t>(share)] = first(share);
  run_on_threads(threads, [&](int id) {
    for (int other = 0; other < threads; ++other) {
      const int share = (id + other) % threads;
      std::atomic<int64_t>& task = next[static_cast<size_t>(share)];
      for (int64_t i = task++; i < first(share + 1); i = task++) body(i, id);
    }
  });
}

}  // namespace heed::cpu
