#include "autograd/core/control_group.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

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

}  // namespace

std::string read_system_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<int64_t> read_number(const ControlGroup& group, const std::string& file) {
  std::istringstream text(read_system_file(group.folder + "/" + file));
  int64_t number = 0;
  return text >> number ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> number_after(const std::string& text, const std::string& word) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(word)) continue;
    std::istringstream rest(line.substr(word.size()));
    int64_t number = 0;
    if (rest >> number) return number;
  }
  return std::nullopt;
}

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

}  // namespace heed
