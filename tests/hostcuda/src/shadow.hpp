// What the check build knows of memory: who wrote each byte last, and who read it since.
//
// A stamp says when and by whom:  interval 32 | epoch 16 | thread 10 | atomic 1 | readers 2 | in flight 1
// from the lowest bit on. Intervals are numbered over all blocks and launches (engine.hpp); an epoch counts the
// __syncwarp in an interval. `readers` stands in the stamp of a read and says who else read in that time, where one
// stamp cannot name them all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/access.hpp"
#include "src/arena.hpp"

namespace hostcuda {

constexpr uint64_t kAtomic = 1ull << 58, kInFlight = 1ull << 61;
constexpr uint64_t kSameWarp = 1ull << 59, kManyWarps = 2ull << 59, kManyBlocks = 3ull << 59, kReaders = 3ull << 59;

inline uint32_t interval_of(uint64_t stamp) { return static_cast<uint32_t>(stamp); }
inline uint32_t epoch_of(uint64_t stamp) { return stamp >> 32 & kMaxEpoch; }
inline unsigned thread_of(uint64_t stamp) { return stamp >> 48 & (kMaxThreads - 1); }

// How finely a word of 4 bytes is known.
enum class Grain : uint32_t { word, half, byte };

struct Cell {
  uint64_t write, read;
  uint32_t write_place : 30, grain : 2;  // grain: only in the cell of a word's first byte
  uint32_t read_place;
};

// The cells of a range of memory. One cell speaks for a whole word until a part of the word is used by itself; then
// there is one for each half, or for each byte. Kernels in f32 and bf16 so need one cell an access.
class Shadow {
 public:
  void cover(uintptr_t begin, size_t bytes);
  bool is_empty() const { return words_ == nullptr; }

  // The cell of the aligned word at the address, null where one cell does not speak for all of it.
  Cell* whole_word(uintptr_t address) {
    Cell& cell = words_[(address - begin_) / 4];
    return grain(cell) == Grain::word ? &cell : nullptr;
  }

  // Calls visit(cell, address) for the cells of [address, address + bytes). is_uniform: afterwards the cells of what
  // was visited are alike, so that one may speak for a whole word again.
  template <bool is_uniform, class Visit>
  void visit(uintptr_t address, size_t bytes, Visit visit_cell) {
    while (bytes != 0) {
      const size_t word = (address - begin_) / 4;
      const auto first = static_cast<unsigned>((address - begin_) % 4);
      const auto count = static_cast<unsigned>(bytes < 4 - first ? bytes : 4 - first);
      Cell& cell = words_[word];
      if (count == 4 && grain(cell) == Grain::word) [[likely]] {
        visit_cell(cell, address);
      } else {
        visit_parts(word, address, first, count, visit_cell);
        if (is_uniform && count == 4) set_grain(cell, Grain::word);
      }
      address += count;
      bytes -= count;
    }
  }

  // Whole pages of memory that are gone. Each has whole pages of cells.
  void forget(uintptr_t page, size_t bytes);

 private:
  static Grain grain(const Cell& cell) { return static_cast<Grain>(cell.grain); }
  static void set_grain(Cell& cell, Grain grain) { cell.grain = static_cast<uint32_t>(grain) & 3u; }

  void refine(size_t word, Grain wanted) {
    Cell& cell = words_[word];
    if (grain(cell) == Grain::word) halves_[word] = cell;
    if (wanted == Grain::byte && grain(cell) != Grain::byte) {
      odd_bytes_[2 * word] = cell;
      odd_bytes_[2 * word + 1] = halves_[word];
    }
    if (static_cast<uint32_t>(wanted) > cell.grain) set_grain(cell, wanted);
  }

  template <class Visit>
  void visit_parts(size_t word, uintptr_t address, unsigned first, unsigned count, Visit visit_cell) {
    const bool splits_halves = first % 2 != 0 || count % 2 != 0;
    if (count != 4) refine(word, splits_halves ? Grain::byte : Grain::half);
    if (grain(words_[word]) == Grain::half) {
      for (unsigned i = first; i < first + count; i += 2) {
        visit_cell(i == 0 ? words_[word] : halves_[word], address + i - first);
      }
      return;
    }
    for (unsigned i = first; i < first + count; ++i) {
      Cell& even = i < 2 ? words_[word] : halves_[word];
      visit_cell(i % 2 == 0 ? even : odd_bytes_[2 * word + i / 2], address + i - first);
    }
  }

  uintptr_t begin_;
  Cell *words_, *halves_, *odd_bytes_;
};

}  // namespace hostcuda
