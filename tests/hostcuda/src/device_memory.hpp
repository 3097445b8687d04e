// Device memory: each allocation begins as NaN and its addresses are never used again. In the plain build it ends at a
// page that nothing may touch, as what was freed. In the check build, which sees the accesses of kernels, all of it is
// closed while no kernel runs, so that host code that touches it ends the process; the plain build leaves it open,
// since that costs 4 us and more for each allocation and launch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hostcuda {

struct Launch;

void* allocate_device(size_t bytes);  // null where there is no more
bool free_device(void* memory);       // false where it is not the begin of a live allocation
bool is_device(const void* address);
bool is_live(const void* address, size_t bytes);  // the range lies in one live allocation
size_t device_bytes_total();
size_t device_bytes_used();
std::vector<std::string> live_device_memory();  // one line each

// While one exists device memory can be touched.
class DeviceAccess {
 public:
  DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
  ~DeviceAccess();
};

// The bytes around each allocation still hold what they were filled with; reports where not. The check build sees the
// access itself.
void check_canaries(const Launch& launch);

// "byte 4 of the 400-byte device allocation #3", and whatever else an address may be.
std::string describe(const void* address);

}  // namespace hostcuda
