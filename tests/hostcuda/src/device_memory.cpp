#include "src/device_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "src/access.hpp"
#include "src/arena.hpp"
#include "src/report.hpp"
#include "src/shared_memory.hpp"
#include "src/symbols.hpp"

namespace hostcuda {
namespace {

constexpr size_t kPage = 4096, kAlignment = 256;  // cudaMalloc gives at least this alignment
constexpr size_t kLead =
    64 << 20;  // before the first allocation, so that addresses far before it are device memory too
constexpr uint64_t kDefaultMiB = 4096;

struct Allocation {
  uintptr_t pages, pages_end, begin;  // the pages that it lies in, up to whose end it reaches
  size_t bytes;
  size_t place_in_live;
  bool is_live;
  uintptr_t end() const { return begin + bytes; }
};

std::recursive_mutex lock;
std::vector<Allocation> allocations;
std::vector<size_t> live;
std::vector<uint32_t> owner_of_page;  // 1 + index of the allocation
uintptr_t next_page = 0;
size_t used_bytes = 0;
int accesses = 0;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
size_t occupied(size_t bytes) { return round_up(bytes, kAlignment); }

void protect(uintptr_t begin, uintptr_t end, int protection) {
  if (mprotect(reinterpret_cast<void*>(begin), end - begin, protection) != 0) give_up("mprotect failed");
}

const Allocation* owner(uintptr_t address) {
  const size_t page = (address - arena_begin()) / kPage;
  if (address - arena_begin() >= kArenaBytes || page >= owner_of_page.size() || owner_of_page[page] == 0)
    return nullptr;
  return &allocations[owner_of_page[page] - 1];
}

std::string name_of(const Allocation& allocation) {
  return format("the %s%zu-byte device allocation #%td", allocation.is_live ? "" : "freed ", allocation.bytes,
                &allocation - allocations.data());
}

std::string describe_device(uintptr_t address) {
  const Allocation* found = owner(address);
  if (found == nullptr && address - arena_begin() >= kPage) found = owner(address - kPage);
  if (found == nullptr) found = owner(address + kPage);
  if (found == nullptr) return format("device address %#zx outside of every allocation", static_cast<size_t>(address));
  if (address < found->begin) return format("%zu bytes before ", found->begin - address) + name_of(*found);
  if (address >= found->end()) return format("%zu bytes past the end of ", address - found->end()) + name_of(*found);
  return format("byte %zu of ", address - found->begin) + name_of(*found);
}

}  // namespace

uintptr_t arena_begin() {
  static const uintptr_t begin = reserve(kArenaBytes, PROT_NONE);
  return begin;
}

uintptr_t reserve(size_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) give_up(format("cannot reserve %zu MiB of addresses", bytes >> 20));
  return reinterpret_cast<uintptr_t>(memory);
}

size_t device_bytes_total() {
  static const size_t total = environment_number("HOSTCUDA_MEMORY_MIB", kDefaultMiB) << 20;
  return total;
}
size_t device_bytes_used() { return used_bytes; }

DeviceAccess::DeviceAccess() {
  lock.lock();
  if (++accesses == 1 && kSeesAllAccesses && next_page != 0)
    protect(arena_begin() + kLead, next_page, PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  if (--accesses == 0 && kSeesAllAccesses && next_page != 0) protect(arena_begin() + kLead, next_page, PROT_NONE);
  lock.unlock();
}

void* allocate_device(size_t bytes) {
  const DeviceAccess access;
  if (used_bytes + occupied(bytes) > device_bytes_total()) return nullptr;
  if (next_page == 0) {
    next_page = arena_begin() + kLead;
    install_fault_handler();
  }
  // One page lies before it. In the plain build it stays closed; in the check build nothing is written there either.
  const uintptr_t pages = next_page + kPage, end = pages + round_up(occupied(bytes), kPage);
  if (end + kPage > arena_begin() + kArenaBytes) give_up("the addresses of device memory are used up");
  protect(kSeesAllAccesses ? next_page : pages, end, PROT_READ | PROT_WRITE);
  next_page = end;
  used_bytes += occupied(bytes);
  const Allocation allocation{pages, end, end - occupied(bytes), bytes, live.size(), true};
  live.push_back(allocations.size());
  allocations.push_back(allocation);
  owner_of_page.resize((end - arena_begin()) / kPage, 0);
  std::fill(owner_of_page.begin() + static_cast<std::ptrdiff_t>((pages - arena_begin()) / kPage), owner_of_page.end(),
            static_cast<uint32_t>(allocations.size()));
  auto* memory = reinterpret_cast<unsigned char*>(allocation.begin);
  std::memset(reinterpret_cast<void*>(pages), kCanary, allocation.begin - pages);
  std::memset(memory, kPoison, bytes);
  std::memset(memory + bytes, kCanary, end - allocation.begin - bytes);
  memory_allocated(memory, bytes);
  return memory;
}

bool free_device(void* memory) {
  const DeviceAccess access;
  const Allocation* found = owner(reinterpret_cast<uintptr_t>(memory));
  if (found == nullptr || !found->is_live || found->begin != reinterpret_cast<uintptr_t>(memory)) return false;
  Allocation& allocation = allocations[static_cast<size_t>(found - allocations.data())];
  allocation.is_live = false;
  used_bytes -= occupied(allocation.bytes);
  allocations[live.back()].place_in_live = allocation.place_in_live;
  live[allocation.place_in_live] = live.back();
  live.pop_back();
  auto* pages = reinterpret_cast<void*>(allocation.pages);
  memory_freed(pages, allocation.pages_end - allocation.pages);
  madvise(pages, allocation.pages_end - allocation.pages, MADV_DONTNEED);
  if (!kSeesAllAccesses) protect(allocation.pages, allocation.pages_end, PROT_NONE);
  return true;
}

bool is_device(const void* address) { return reinterpret_cast<uintptr_t>(address) - arena_begin() < kArenaBytes; }

bool is_live(const void* address, size_t bytes) {
  const std::lock_guard guard(lock);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const Allocation* found = owner(begin);
  return found != nullptr && found->is_live && begin >= found->begin && begin + bytes <= found->end();
}

std::vector<std::string> live_device_memory() {
  const std::lock_guard guard(lock);
  std::vector<std::string> names;
  for (const size_t index : live) names.push_back(name_of(allocations[index]));
  return names;
}

void check_canaries(const Launch& launch) {
  if (kSeesAllAccesses) return;
  const std::lock_guard guard(lock);
  const auto look = [&](uintptr_t from, uintptr_t to) {
    auto* begin = reinterpret_cast<unsigned char*>(from);
    auto* end = reinterpret_cast<unsigned char*>(to);
    auto* changed = std::find_if(begin, end, [](unsigned char byte) { return byte != kCanary; });
    if (changed == end) return;
    report("bounds", "kernel " + function_name(launch.call.kernel) + ": wrote " + describe(changed));
    std::fill(changed, end, kCanary);
  };
  for (const size_t index : live) {
    const Allocation& allocation = allocations[index];
    look(std::max(allocation.pages, allocation.begin - std::min(allocation.begin, kAlignment)), allocation.begin);
    look(allocation.end(), allocation.pages_end);
  }
}

std::string describe(const void* address) {
  if (is_device(address)) return describe_device(reinterpret_cast<uintptr_t>(address));
  const std::string shared = multiprocessor == nullptr ? "" : describe_shared(*multiprocessor, address);
  return shared.empty() ? format("host address %p", address) : shared;
}

}  // namespace hostcuda
