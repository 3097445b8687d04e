#include "autograd/core/host_limits.hpp"

#include <algorithm>
#include <array>

#include "autograd/core/buffer.hpp"
#include "autograd/core/check.hpp"
#include "autograd/core/control_group.hpp"

namespace heed {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kNoLimit = int64_t{1} << 62;  // cgroup v1 reports nearly 2^63 for "no limit"

using Source = MemoryLimit::Source;

std::optional<MemoryLimit> machine_limit(const std::string& meminfo, int64_t swap) {
  const std::optional<int64_t> available = number_after(meminfo, "MemAvailable:");
  if (!available) return std::nullopt;
  return MemoryLimit{.source = Source::machine,
                     .free_bytes = *available * kKiB,
                     .total_bytes = number_after(meminfo, "MemTotal:").value_or(*available) * kKiB,
                     .swap_bytes = swap};
}

std::optional<MemoryLimit> group_limit(const ControlGroup& group, int64_t swap) {
  const bool v1 = group.version == 1;
  const std::optional<int64_t> limit = read_number(group, v1 ? "memory.limit_in_bytes" : "memory.max");
  const std::optional<int64_t> use = read_number(group, v1 ? "memory.usage_in_bytes" : "memory.current");
  if (!limit || !use || *limit >= kNoLimit) return std::nullopt;
  // The total_ values of v1 include the descendants, as the plain values of v2 do.
  const std::string statistics = read_system_file(group.folder + "/memory.stat"), prefix = v1 ? "total_" : "";
  const auto pages = [&](const char* name) { return number_after(statistics, prefix + name + " ").value_or(0); };
  const int64_t cache = pages("inactive_file") + pages("active_file");
  return MemoryLimit{.source = Source::container,
                     .free_bytes = std::max<int64_t>(0, *limit - std::max<int64_t>(0, *use - cache)),
                     .total_bytes = *limit,
                     .swap_bytes = swap};
}

// limit: the start of a line of /proc/self/limits; use: that of a line of /proc/self/status, in KiB.
std::optional<MemoryLimit> process_limit(const std::string& root, Source source, const char* limit, const char* use) {
  const std::optional<int64_t> bytes = number_after(read_system_file(root + "/proc/self/limits"), limit);
  const std::optional<int64_t> used = number_after(read_system_file(root + "/proc/self/status"), use);
  if (!bytes || !used) return std::nullopt;  // "unlimited" is not a number
  return MemoryLimit{
      .source = source, .free_bytes = std::max<int64_t>(0, *bytes - *used * kKiB), .total_bytes = *bytes};
}

const char* source_name(Source source) {
  switch (source) {
    case Source::machine:
      return "this machine";
    case Source::container:
      return "memory limit of the container";
    case Source::address_space:
      return "ulimit -v";
    case Source::data_segment:
      return "ulimit -d";
  }
  return "";
}

bool fits(int64_t bytes) {
  const std::optional<MemoryLimit> limit = memory_limit();
  return !limit || bytes <= limit->free_bytes + limit->swap_bytes;
}

}  // namespace

std::optional<MemoryLimit> memory_limit(const std::string& root) {
  const std::string meminfo = read_system_file(root + "/proc/meminfo");
  const int64_t swap = number_after(meminfo, "SwapFree:").value_or(0) * kKiB;
  std::optional<MemoryLimit> strictest;
  const auto consider = [&](const std::optional<MemoryLimit>& limit) {
    if (limit && (!strictest || limit->free_bytes < strictest->free_bytes)) strictest = limit;
  };
  consider(machine_limit(meminfo, swap));
  for (const ControlGroup& group : control_groups("memory", root)) consider(group_limit(group, swap));
  consider(process_limit(root, Source::address_space, "Max address space", "VmSize:"));
  consider(process_limit(root, Source::data_segment, "Max data size", "VmData:"));
  return strictest;
}

std::string describe(const MemoryLimit& limit) {
  return fmt::format("{} free of {} ({})", human_bytes(limit.free_bytes), human_bytes(limit.total_bytes),
                     source_name(limit.source));
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string out_of_memory(const MemoryNeed& need) {
  std::string text = fmt::format("out of memory: {} needs {}", need.what,
                                 need.bytes > 0 ? human_bytes(need.bytes) : "more than there is");
  if (const std::optional<MemoryLimit> limit = memory_limit()) text += ", " + describe(*limit);
  if (!need.advice.empty()) text += "; " + need.advice;
  return text;
}

bool make_room(int64_t bytes) {
  if (fits(bytes)) return true;
  release_cached_memory(Device::cpu);
  return fits(bytes);
}

void require_memory(const MemoryNeed& need) {
  if (!make_room(need.bytes)) throw_out_of_memory(need);
}

void throw_out_of_memory(const MemoryNeed& need) { throw MemoryError(out_of_memory(need)); }

}  // namespace heed
