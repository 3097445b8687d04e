// Where the page of a job lies (train/comm/watchdog.hpp): other jobs, and other tests, have theirs beside it.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "data/io/checksum.hpp"

namespace heed::test {

inline std::filesystem::path heartbeat_path(const std::string& job, int size) {
  return fmt::format("/dev/shm/heed-{}-{:016x}", getuid(), data::checksum(fmt::format("{} {}", job, size)));
}

}  // namespace heed::test
