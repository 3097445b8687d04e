#include "autograd/cpu/thread_count.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <thread>

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

}  // namespace

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
