#include "autograd/core/buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/core/context.hpp"
#include "autograd/core/host_limits.hpp"
#include "autograd/core/memory_pool.hpp"

namespace heed::test {
namespace {

#ifdef HEED_SANITIZER
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

MemoryUse use_of(MemoryCategory category) { return memory_report(Device::cpu).category[static_cast<size_t>(category)]; }
MemoryUse total_use() { return memory_report(Device::cpu).total; }

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    release_cached_memory(Device::cpu);
    reset_memory_peaks(Device::cpu);
    before_ = memory_report(Device::cpu);
  }
  int64_t more(MemoryCategory category) const {
    return use_of(category).current_bytes - before_.category[static_cast<size_t>(category)].current_bytes;
  }
  MemoryReport before_;
};

TEST_F(Memory, IsAccountedByCategory) {
  {
    const Buffer a(4096, Device::cpu, MemoryCategory::parameters);
    const Buffer b(1024, Device::cpu, MemoryCategory::parameters);
    const Buffer c(64, Device::cpu, MemoryCategory::workspace);
    EXPECT_EQ(more(MemoryCategory::parameters), 4096 + 1024);
    EXPECT_EQ(more(MemoryCategory::workspace), 64);
    EXPECT_EQ(more(MemoryCategory::activations), 0);
    EXPECT_EQ(total_use().current_bytes - before_.total.current_bytes, 4096 + 1024 + 64);
  }
  EXPECT_EQ(more(MemoryCategory::parameters), 0);
  EXPECT_EQ(total_use().current_bytes, before_.total.current_bytes);
}

TEST_F(Memory, BlocksWasteAtMostAnEighth) {
  for (const int64_t bytes : {1, 63, 64, 65, 1000, 1025, 4097, 100'000, 1'000'003, (1 << 20) + 1, (1 << 24) - 1}) {
    const Buffer buffer(bytes, Device::cpu, MemoryCategory::activations);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_GE(more(MemoryCategory::activations), bytes);
    EXPECT_LE(more(MemoryCategory::activations), std::max(bytes + 63, bytes + bytes / 8)) << bytes;
    std::memset(buffer.data(), 1, static_cast<size_t>(bytes));
  }
}

TEST_F(Memory, PeakIsOfTheSum) {
  const int64_t base = before_.total.current_bytes;
  { const Buffer a(8192, Device::cpu, MemoryCategory::gradients); }
  { const Buffer b(4096, Device::cpu, MemoryCategory::optimizer); }
  // Never held together, so the peak of the sum is less than the sum of the peaks.
  EXPECT_EQ(total_use().peak_bytes - base, 8192);
  EXPECT_EQ(use_of(MemoryCategory::gradients).peak_bytes - use_of(MemoryCategory::gradients).current_bytes, 8192);
  EXPECT_EQ(use_of(MemoryCategory::optimizer).peak_bytes - use_of(MemoryCategory::optimizer).current_bytes, 4096);
  reset_memory_peaks(Device::cpu);
  EXPECT_EQ(total_use().peak_bytes, total_use().current_bytes);
  EXPECT_EQ(use_of(MemoryCategory::gradients).peak_bytes, use_of(MemoryCategory::gradients).current_bytes);
}

TEST_F(Memory, IsAligned) {
  std::vector<Buffer> held;
  for (int64_t bytes = 1; bytes < 100'000; bytes = bytes * 3 + 1) {
    held.emplace_back(bytes, Device::cpu, MemoryCategory::activations);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(held.back().data()) % 64, 0u) << bytes;
  }
}

// Small blocks lie side by side in larger pieces.
TEST_F(Memory, SmallBlocksDoNotOverlap) {
  std::vector<Buffer> buffers;
  for (const int64_t bytes : {1, 64, 65, 1000, 5000, 100'000, 1'000'000, 2'000'000, 2'097'152, 2'097'153, 1'900'000}) {
    for (int i = 0; i < 9; ++i) {
      buffers.emplace_back(bytes, Device::cpu, MemoryCategory::workspace);
      std::memset(buffers.back().data(), static_cast<int>(buffers.size()), static_cast<size_t>(bytes));
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto* begin = static_cast<const unsigned char*>(buffers[i].data());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % 64, 0u);
    EXPECT_EQ(std::count(begin, begin + buffers[i].bytes(), static_cast<unsigned char>(i + 1)), buffers[i].bytes());
  }
}

// With an address sanitizer blocks go back to the system, so that a use after free shows.
TEST_F(Memory, BlocksAreUsedAgain) {
#ifdef HEED_ADDRESS_SANITIZER
  GTEST_SKIP() << "blocks are not kept under the address sanitizer";
#endif
  const void* first = nullptr;
  {
    const Buffer a(5'000'000, Device::cpu, MemoryCategory::activations);
    first = a.data();
  }
  const MemoryReport cached = memory_report(Device::cpu);
  EXPECT_GE(cached.cached_bytes, 5'000'000);
  {
    const Buffer again(5'000'001, Device::cpu, MemoryCategory::parameters);  // another size of the same class
    EXPECT_EQ(again.data(), first);
    EXPECT_EQ(memory_report(Device::cpu).system_allocations, cached.system_allocations);
    EXPECT_LE(memory_report(Device::cpu).cached_bytes, cached.cached_bytes - 5'000'000);
    const Buffer other(5'000'000, Device::cpu, MemoryCategory::activations);
    EXPECT_NE(other.data(), again.data()) << "a block in use was given away";
    EXPECT_EQ(memory_report(Device::cpu).system_allocations, cached.system_allocations + 1);
  }
  release_cached_memory(Device::cpu);
  EXPECT_EQ(memory_report(Device::cpu).cached_bytes, before_.cached_bytes);
}

TEST_F(Memory, SteadyStateAsksTheSystemForNothing) {
#ifdef HEED_ADDRESS_SANITIZER
  GTEST_SKIP() << "blocks are not kept under the address sanitizer";
#endif
  const auto step = [] {
    std::vector<Buffer> held;
    for (const int64_t bytes : {100, 3000, 100, 70'000, 1 << 20}) {
      held.emplace_back(bytes, Device::cpu, MemoryCategory::activations);
    }
  };
  step();
  const int64_t after_first = memory_report(Device::cpu).system_allocations;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(memory_report(Device::cpu).system_allocations, after_first);
}

TEST_F(Memory, PoisonFillsNewAndUsedBlocks) {
  set_memory_poison(true);
  for (int pass = 0; pass < 2; ++pass) {
    const Buffer buffer(12'345 * sizeof(float), Device::cpu, MemoryCategory::activations);
    float* values = static_cast<float*>(buffer.data());
    for (int i = 0; i < 12'345; ++i) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
      values[i] = 1;
    }
  }
  set_memory_poison(false);
}

TEST_F(Memory, MovesHandTheBlockOver) {
  Buffer a(128, Device::cpu, MemoryCategory::gradients);
  const void* block = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), block);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): what a moved buffer holds is the point
  EXPECT_EQ(a.bytes(), 0);
  Buffer c(256, Device::cpu, MemoryCategory::optimizer);
  c = std::move(b);
  EXPECT_EQ(c.data(), block);
  EXPECT_EQ(c.bytes(), 128);
  EXPECT_EQ(more(MemoryCategory::optimizer), 0) << "the block that c held before";
  EXPECT_EQ(more(MemoryCategory::gradients), 128);
  c = Buffer();
  EXPECT_EQ(more(MemoryCategory::gradients), 0);
}

TEST_F(Memory, AnEmptyBufferTakesNothing) {
  const Buffer none(0, Device::cpu, MemoryCategory::parameters);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(total_use().current_bytes, before_.total.current_bytes);
}

TEST_F(Memory, AbsurdSizesAreRefusedInWords) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  for (const int64_t bytes : {kLargest, kLargest - 1000, int64_t{1} << 62, (int64_t{1} << 47) + 1, int64_t{-1}}) {
    try {
      Buffer buffer(bytes, Device::cpu, MemoryCategory::activations);
      ADD_FAILURE() << bytes << " bytes were given";
    } catch (const MemoryError& error) {
      const std::string text = error.what();
      for (const std::string& part : {human_bytes(bytes), std::string("activations"), std::string("any machine")}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
      }
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
  EXPECT_EQ(total_use().current_bytes, before_.total.current_bytes) << "a refused buffer was accounted for";
}

TEST_F(Memory, ARefusalOfTheSystemIsAnErrorInWords) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program instead";
  try {
    Buffer buffer(int64_t{1} << 46, Device::cpu, MemoryCategory::gradients);
    GTEST_SKIP() << "this system gives 64 TiB";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    for (const char* part : {"out of memory: 64.0 TiB needed for gradients", "in use", " free of ", "("}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("train."), std::string::npos) << "nobody has said which keys there are: " << text;
  }
}

TEST_F(Memory, ARefusalEndsWithTheAdviceForItsCategory) {
  set_memory_advice(MemoryCategory::gradients, "lower model.d_model");
  for (const auto& [category, advised] :
       {std::pair{MemoryCategory::gradients, true}, {MemoryCategory::optimizer, false}}) {
    try {
      Buffer buffer(-1, Device::cpu, category);
      ADD_FAILURE() << "given";
    } catch (const MemoryError& error) {
      EXPECT_EQ(std::string(error.what()).ends_with("; lower model.d_model"), advised) << error.what();
    }
  }
  set_memory_advice(MemoryCategory::gradients, "");
}

TEST_F(Memory, ScratchIsWorkspace) {
  {
    const Scratch<double> scratch(context(Device::cpu), 100);
    EXPECT_EQ(more(MemoryCategory::workspace), 832);  // 800 bytes in blocks of 64
    scratch[99] = 1;
  }
  EXPECT_EQ(more(MemoryCategory::workspace), 0);
}

TEST_F(Memory, ThreadsDoNotShareBlocks) {
  std::atomic<int> clashes = 0;
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([id, &clashes] {
      for (int round = 0; round < 2000; ++round) {
        const int64_t bytes = 64 * (1 + (round * 7 + id) % 40);
        const Buffer buffer(bytes, Device::cpu, MemoryCategory::workspace);
        auto* values = static_cast<volatile unsigned char*>(buffer.data());
        const auto mark = static_cast<unsigned char>(16 * id + round % 16);
        values[0] = mark;
        values[bytes - 1] = mark;
        std::this_thread::yield();
        if (values[0] != mark || values[bytes - 1] != mark) ++clashes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(more(MemoryCategory::workspace), 0);
}

TEST(MemoryCategories, HaveNames) {
  EXPECT_EQ(name(MemoryCategory::parameters), "parameters");
  EXPECT_EQ(name(MemoryCategory::gradients), "gradients");
  EXPECT_EQ(name(MemoryCategory::optimizer), "optimizer");
  EXPECT_EQ(name(MemoryCategory::activations), "activations");
  EXPECT_EQ(name(MemoryCategory::workspace), "workspace");
}

}  // namespace
}  // namespace heed::test
