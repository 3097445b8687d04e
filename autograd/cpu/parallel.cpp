#include "autograd/cpu/parallel.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"

#if HEED_HAVE_OPENMP
#include <omp.h>
#endif

namespace heed::cpu {
namespace {

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Returns nullopt unless the text is an integer above 0.
std::optional<int64_t> positive_number(std::string_view text) {
  text = without_blanks(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range && text.front() != '-') return std::numeric_limits<int64_t>::max();
  return error == std::errc() && number > 0 ? std::optional(number) : std::nullopt;
}

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

std::optional<int64_t> threads_asked_for(const char* omp_num_threads) {
  if (omp_num_threads == nullptr) return std::nullopt;
  std::string_view rest = omp_num_threads;
  std::optional<int64_t> first;
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::optional<int64_t> number = positive_number(rest.substr(0, comma));
    if (!number) return std::nullopt;  // OpenMP accepts the whole list or none of it
    if (!first) first = number;
    if (comma == rest.size()) return first;
    rest.remove_prefix(comma + 1);
  }
}

int affinity_cpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return std::max(1, CPU_COUNT(&cpus));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));  // more CPUs than fit in a cpu_set_t
}

int threads_for_quota(double quota_cpus) {
  constexpr double kWorthAThread = 0.25;  // fraction of a CPU
  return static_cast<int>(std::max(1.0, std::min(std::floor(quota_cpus + 1 - kWorthAThread), 1e6)));
}

ThreadCount choose_threads(int cpus, std::optional<double> quota, const char* omp_num_threads) {
  using Reason = ThreadCount::Reason;
  ThreadCount count{.threads = cpus, .cpus = cpus, .quota = quota, .asked = threads_asked_for(omp_num_threads)};
  if (count.asked) {
    const int64_t most = int64_t{kThreadsPerCpu} * cpus;
    count.reason = *count.asked > most ? Reason::too_many : Reason::variable;
    count.threads = static_cast<int>(std::min(*count.asked, most));
  } else if (quota && threads_for_quota(*quota) < cpus) {
    count.reason = Reason::quota;
    count.threads = threads_for_quota(*quota);
  }
  return count;
}

std::string describe(const ThreadCount& count) {
  const auto several = [](int64_t number, const char* noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
  };
  std::string text = several(count.threads, "thread");
  switch (count.reason) {
    case ThreadCount::Reason::affinity:
      break;
    case ThreadCount::Reason::quota:
      text += fmt::format(" (CPU quota {:.1f} of {})", *count.quota, several(count.cpus, "CPU"));
      break;
    case ThreadCount::Reason::variable:
      text += " (OMP_NUM_THREADS)";
      break;
    case ThreadCount::Reason::too_many:
      text += fmt::format(" (OMP_NUM_THREADS = {}, at most {} times {})", *count.asked, kThreadsPerCpu,
                          several(count.cpus, "CPU"));
  }
  return text;
}

}  // namespace heed::cpu
