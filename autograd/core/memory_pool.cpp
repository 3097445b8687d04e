#include "autograd/core/memory_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "autograd/core/shape.hpp"

namespace heed {
namespace {

constexpr int64_t kSmallest = 1024;  // up to this size, the classes are multiples of the alignment
constexpr int64_t kSmall = 2 << 20;  // blocks up to this size are cut from slabs of kPiece bytes
constexpr int64_t kPiece = 8 * kSmall;

struct Advice {
  std::mutex mutex;
  std::array<std::string, kMemoryCategories> texts;
};

// Never destroyed, like the pools.
Advice& advice() {
  static Advice* const advice = new Advice;
  return *advice;
}

}  // namespace

void set_memory_advice(MemoryCategory category, const std::string& text) {
  const std::lock_guard lock(advice().mutex);
  advice().texts[static_cast<size_t>(category)] = text;
}

void throw_memory_error(int64_t bytes, MemoryCategory category, int64_t in_use, const std::string& free_text) {
  const std::lock_guard lock(advice().mutex);
  const std::string& text = advice().texts[static_cast<size_t>(category)];
  throw MemoryError(fmt::format("out of memory: {} needed for {}, {} in use{}{}{}", human_bytes(bytes), name(category),
                                human_bytes(in_use), free_text, text.empty() ? "" : "; ", text));
}

// Eight size classes per power of two: at most an eighth is wasted, and similar sizes can reuse the same blocks.
int64_t MemoryPool::size_class(int64_t bytes) const {
  const int64_t alignment = source_.alignment();
  if (bytes <= kSmallest) return std::max(alignment, round_up(bytes, alignment));
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return round_up(bytes, std::max(power / 8, alignment));
}

bool MemoryPool::is_small(int64_t block_bytes) const { return caching_ && block_bytes <= kSmall; }

void* MemoryPool::allocate(int64_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  const int64_t block_bytes = size_class(bytes);
  void* block = open_ != nullptr ? take(*open_, block_bytes) : nullptr;
  if (block == nullptr) {
    block = take(cached_, block_bytes);
    if (block == nullptr) block = ask_source(block_bytes, bytes, category);
    if (open_ != nullptr && caching_) reserved_[block] = open_;
  }
  if (is_small(block_bytes)) ++small_in_use_;
  account(category, block_bytes);
  return block;
}

void MemoryPool::free(void* block, int64_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  const int64_t block_bytes = size_class(bytes);
  account(category, -block_bytes);
  if (is_small(block_bytes)) --small_in_use_;
  if (!caching_) {
    source_.free(block);
    return;
  }
  const auto owner = reserved_.find(block);
  (owner == reserved_.end() ? cached_ : *owner->second)[block_bytes].push_back(block);
  report_.cached_bytes += block_bytes;
}

MemoryReport MemoryPool::report() {
  const std::lock_guard lock(mutex_);
  return report_;
}

void MemoryPool::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (MemoryUse& use : report_.category) use.peak_bytes = use.current_bytes;
  report_.total.peak_bytes = report_.total.current_bytes;
}

void MemoryPool::release_cached() {
  const std::lock_guard lock(mutex_);
  release_cached_locked();
}

void MemoryPool::set_caching(bool on) {
  const std::lock_guard lock(mutex_);
  require<MemoryError>(report_.total.current_bytes == 0, "{} bytes are in use: caching is switched before any are",
                       report_.total.current_bytes);
  release_cached_locked();
  caching_ = on;
}

void MemoryPool::open_reservation(Blocks* reservation) {
  const std::lock_guard lock(mutex_);
  require<MemoryError>(open_ == nullptr, "a reservation of memory is open already");
  open_ = reservation;
}

void MemoryPool::close_reservation() {
  const std::lock_guard lock(mutex_);
  open_ = nullptr;
}

void MemoryPool::drop_reservation(Blocks* reservation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(reserved_, [&](const auto& entry) { return entry.second == reservation; });
  for (auto& [bytes, blocks] : *reservation) {
    std::vector<void*>& cached = cached_[bytes];
    cached.insert(cached.end(), blocks.begin(), blocks.end());
  }
  reservation->clear();
}

void* MemoryPool::take(Blocks& blocks, int64_t block_bytes) {
  const auto found = blocks.find(block_bytes);
  if (found == blocks.end() || found->second.empty()) return nullptr;
  void* block = found->second.back();
  found->second.pop_back();
  report_.cached_bytes -= block_bytes;
  return block;
}

void* MemoryPool::ask_source(int64_t block_bytes, int64_t bytes, MemoryCategory category) {
  const auto ask = [&] { return is_small(block_bytes) ? cut_small(block_bytes) : source_.allocate(block_bytes); };
  void* block = ask();
  if (block == nullptr) {
    release_cached_locked();
    block = ask();
  }
  if (block == nullptr) throw_memory_error(bytes, category, report_.total.current_bytes, source_.free_text());
  ++report_.system_allocations;
  return block;
}

void* MemoryPool::cut_small(int64_t block_bytes) {
  if (block_bytes > left_) {
    pieces_.reserve(pieces_.size() + 1);
    void* piece = source_.allocate(kPiece);
    if (piece == nullptr) return nullptr;
    pieces_.push_back(piece);
    next_ = static_cast<char*>(piece);
    left_ = kPiece;
  }
  left_ -= block_bytes;
  return std::exchange(next_, next_ + block_bytes);
}

void MemoryPool::account(MemoryCategory category, int64_t change) {
  for (MemoryUse* use : {&report_.category[static_cast<size_t>(category)], &report_.total}) {
    use->current_bytes += change;
    use->peak_bytes = std::max(use->peak_bytes, use->current_bytes);
  }
}

void MemoryPool::release_cached_locked() {
  // A slab can only be freed with all its blocks: none may be in use or held by a reservation.
  const bool keep_small = small_in_use_ > 0 || !reserved_.empty();
  for (auto& [bytes, blocks] : cached_) {
    const bool small = is_small(bytes);
    if (small && keep_small) continue;
    report_.cached_bytes -= bytes * static_cast<int64_t>(blocks.size());
    if (!small) std::for_each(blocks.begin(), blocks.end(), [&](void* block) { source_.free(block); });
    blocks.clear();
  }
  if (!keep_small) free_pieces();
}

void MemoryPool::free_pieces() {
  for (void* piece : pieces_) source_.free(piece);
  pieces_.clear();
  left_ = 0;
}

}  // namespace heed
