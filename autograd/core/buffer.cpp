#include "autograd/core/buffer.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/core/host_limits.hpp"
#include "autograd/core/memory_pool.hpp"
#include "autograd/core/shape.hpp"

namespace heed {
namespace {

constexpr int64_t kAddressSpaceBytes = int64_t{1} << 47;

std::atomic<bool> poison = false;

// Under AddressSanitizer a cached block would hide a use after free.
#ifdef HEED_ADDRESS_SANITIZER
constexpr bool kCacheBlocks = false;
#else
constexpr bool kCacheBlocks = true;
#endif

// System memory, in huge pages where available: with small pages, the GEMMs of a model that exceeds the caches spend 4%
// of a training step in address translation (measured, 2 Zen 4 cores).
class SystemMemory final : public MemorySource {
 public:
  void* allocate(int64_t bytes) override {
    const bool huge = kCacheBlocks && bytes >= kHugePage;
    const int64_t aligned = huge ? kHugePage : alignment();
    void* memory = std::aligned_alloc(static_cast<size_t>(aligned), static_cast<size_t>(round_up(bytes, aligned)));
    if (huge && memory != nullptr) madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    return memory;
  }
  void free(void* memory) noexcept override { std::free(memory); }
  int64_t alignment() const override { return 64; }
  std::string free_text() const override {
    const std::optional<MemoryLimit> limit = memory_limit();
    return limit ? ", " + describe(*limit) : "";
  }

 private:
  static constexpr int64_t kHugePage = 2 << 20;
};

}  // namespace

MemoryPool& memory_pool(Device device) {
  static MemoryPool* const cpu = new MemoryPool(*new SystemMemory, kCacheBlocks);
  if (device == Device::cpu) return *cpu;
  static MemoryPool* const cuda = new MemoryPool(cuda::memory_source(), true);
  return *cuda;
}

std::string_view name(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategories> kNames{"parameters", "gradients", "optimizer",
                                                                   "activations", "workspace"};
  return kNames[static_cast<size_t>(category)];
}

MemoryReport memory_report(Device device) { return memory_pool(device).report(); }
void reset_memory_peaks(Device device) { memory_pool(device).reset_peaks(); }
void release_cached_memory(Device device) { memory_pool(device).release_cached(); }
void set_memory_caching(Device device, bool on) { memory_pool(device).set_caching(on); }
void set_memory_poison(bool on) { poison = on; }

void copy_memory(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  if (bytes == 0) return;
  if (to_device == Device::cpu && from_device == Device::cpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else if (to_device == Device::cpu) {
    cuda::copy_to_host(to, from, bytes);
  } else if (from_device == Device::cpu) {
    cuda::copy_to_device(to, from, bytes);
  } else {
    cuda::copy_on_device(to, from, bytes);
  }
}

void fill_memory(void* memory, Device device, int byte, int64_t bytes) {
  if (bytes == 0) return;
  if (device == Device::cpu) {
    std::memset(memory, byte, static_cast<size_t>(bytes));
  } else {
    cuda::fill(memory, byte, bytes);
  }
}

MemoryReservation::MemoryReservation(Device device) : device_(device), blocks_(std::make_unique<Blocks>()) {
  memory_pool(device_).open_reservation(blocks_.get());
}
void MemoryReservation::close() { memory_pool(device_).close_reservation(); }
MemoryReservation::~MemoryReservation() {
  memory_pool(device_).close_reservation();
  memory_pool(device_).drop_reservation(blocks_.get());
}

Buffer::Buffer(int64_t bytes, Device device, MemoryCategory category)
    : bytes_(bytes), device_(device), category_(category) {
  if (bytes < 0 || bytes > kAddressSpaceBytes) {
    throw_memory_error(bytes, category, memory_report(device).total.current_bytes, ", more than any machine has");
  }
  if (bytes == 0) return;
  data_ = memory_pool(device).allocate(bytes, category);
  if (poison) fill_memory(data_, device, 0xFF, bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) memory_pool(device_).free(data_, bytes_, category_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_),
      category_(other.category_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) memory_pool(device_).free(data_, bytes_, category_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    device_ = other.device_;
    category_ = other.category_;
  }
  return *this;
}

}  // namespace heed
