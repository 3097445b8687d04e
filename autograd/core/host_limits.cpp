#include "autograd/core/host_limits.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#include "autograd/core/buffer.hpp"
#include "autograd/core/check.hpp"

namespace heed {
namespace {

// A mounted cgroup hierarchy: the folder `place` shows its cgroup `root`.
struct Mount {
  int version = 2;
  std::string root, place;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& list, const std::string& word) {
  const std::vector<std::string> words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo escapes blanks, tabs, line feeds and backslashes as three octal digits: "\040".
std::string unescape(const std::string& text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
                        is_octal(text[i + 3]);
    if (!escape) {
      result += text[i];
      continue;
    }
    result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return result;
}

// A line is "36 35 98:0 ROOT PLACE options [optional fields] - TYPE source super-options".
std::vector<Mount> mounts_of(const std::string& controller, const std::string& mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string& line : split(mountinfo, '\n')) {
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    const std::vector<std::string> fields = split(line, ' '), rest = split(line.substr(separator + 3), ' ');
    if (fields.size() < 5 || rest.size() < 3) continue;
    const bool v1 = rest[0] == "cgroup" && lists(rest[2], controller), v2 = rest[0] == "cgroup2";
    if (v1 || v2) mounts.push_back({.version = v1 ? 1 : 2, .root = unescape(fields[3]), .place = unescape(fields[4])});
  }
  return mounts;
}

// The path of this process's cgroup in the hierarchy of a version. A line is "4:cpu,cpuacct:/path", for version 2
// "0::/path".
std::optional<std::string> path_of(const std::string& controller, int version, const std::string& cgroup) {
  for (const std::string& line : split(cgroup, '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version == 2 ? controllers.empty() : lists(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The part of a cgroup's path below the root of its mount. Empty (the root itself) if the path is outside of the mount:
// some containers show the path of the host.
std::string below(const std::string& root, const std::string& path) {
  if (path.starts_with("/..")) return "";
  if (root == "/") return path == "/" ? "" : path;
  const bool is_below = path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  return is_below ? path.substr(root.size()) : "";
}

// The whole text of a file; empty if it is missing or cannot be read.
std::string read_system_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The number in a file of a cgroup, such as memory.max; nullopt for "max" or a missing file.
std::optional<int64_t> read_number(const ControlGroup& group, const std::string& file) {
  std::istringstream text(read_system_file(group.folder + "/" + file));
  int64_t number = 0;
  return text >> number ? std::optional(number) : std::nullopt;
}

// The number after a word at the start of a line, "inactive_file 4096" or "MemAvailable:   1024 kB"; nullopt if there
// is none.
std::optional<int64_t> number_after(const std::string& text, const std::string& word) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(word)) continue;
    std::istringstream rest(line.substr(word.size()));
    int64_t number = 0;
    if (rest >> number) return number;
  }
  return std::nullopt;
}

std::optional<double> quota_of(const ControlGroup& group) {
  int64_t quota = 0, period = 0;
  if (group.version == 2) {
    std::istringstream text(read_system_file(group.folder + "/cpu.max"));
    text >> quota >> period;  // "max 100000": quota stays 0
  } else {
    quota = read_number(group, "cpu.cfs_quota_us").value_or(0);  // -1: no limit
    period = read_number(group, "cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
}

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

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root) {
  const std::string cgroup = read_system_file(root + "/proc/self/cgroup");
  const std::string mountinfo = read_system_file(root + "/proc/self/mountinfo");
  std::vector<ControlGroup> groups;
  for (const Mount& mount : mounts_of(controller, mountinfo)) {
    const std::optional<std::string> path = path_of(controller, mount.version, cgroup);
    if (!path) continue;
    std::string rest = below(mount.root, *path);
    while (true) {
      groups.push_back({.version = mount.version, .folder = root + mount.place + rest});
      if (rest.empty()) break;
      rest.resize(rest.rfind('/'));
    }
  }
  return groups;
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const std::optional<double> quota = quota_of(group);
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

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
