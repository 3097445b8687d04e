// Accesses without an order. The plain build can only run the same kernel in several orders.
#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using Race = KernelTest;

// Runs it in several orders: in how many of them is a value wrong?
template <class Run>
int wrong_orders(Run run_and_check) {
  int wrong = 0;
  for (const uint64_t seed : {0, 1, 2, 3}) {
    set_schedule(seed);
    wrong += run_and_check() ? 0 : 1;
  }
  set_schedule(0);
  return wrong;
}

constexpr int kReverseLine = __LINE__ + 5;
__global__ void reverse_kernel(float* out, bool waits) {
  __shared__ float values[64];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (waits) __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
}

TEST_F(Race, SharedMemoryWithoutABarrier) {
  DeviceArray<float> out(64);
  const auto is_right = [&](bool waits) {
    launch({1, 64}, reverse_kernel, out.data(), waits);
    bool right = true;
    const auto values = out.values();
    for (size_t i = 0; i < 64; ++i) right = right && values[i] == static_cast<float>(63 - i);
    return right;
  };
  EXPECT_EQ(wrong_orders([&] { return is_right(true); }), 0);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(wrong_orders([&] { return is_right(false); }), 4);
  EXPECT_TRUE(check_reported("race", "reverse_kernel", kReverseLine));
}

constexpr int kReuseLine = __LINE__ + 8;
__global__ void reuse_kernel(float* out, bool waits) {
  auto& values = shared_as<float[64]>();
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  const float mirrored = values[63 - threadIdx.x];
  if (waits) __syncthreads();
  // Someone may not have read this yet.
  values[threadIdx.x] = 2 * mirrored;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_F(Race, SharedMemoryUsedAgainTooEarly) {
  DeviceArray<float> out(64);
  launch({1, 64, 256}, reuse_kernel, out.data(), true);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(out.values()[0], 126);
  if (!kSeesAllAccesses) return;
  launch({1, 64, 256}, reuse_kernel, out.data(), false);
  EXPECT_TRUE(reported("race", "reuse_kernel", kReuseLine));
}

constexpr int kWarpLine = __LINE__ + 7;
__global__ void warp_kernel(float* out, unsigned mask, bool shuffles) {
  __shared__ float values[32];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (mask == kFullWarp) __syncwarp();
  if (mask != kFullWarp && mask != 0) __syncwarp(threadIdx.x < 16 ? mask : ~mask);
  if (shuffles) out[threadIdx.x] = __shfl_xor_sync(kFullWarp, values[threadIdx.x], 1);
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}

TEST_F(Race, LanesOfAWarpWithoutSyncwarp) {
  DeviceArray<float> out(32);
  for (const bool shuffles : {false, true}) {
    launch({1, 32}, warp_kernel, out.data(), kFullWarp, shuffles);
    EXPECT_TRUE(nothing_reported());
    if (!kSeesAllAccesses) continue;
    launch({1, 32}, warp_kernel, out.data(), 0u, shuffles);  // a shuffle orders the lanes here, but not in CUDA
    EXPECT_TRUE(reported("race", "warp_kernel", kWarpLine));
    launch({1, 32}, warp_kernel, out.data(), 0xFFFFu, shuffles);  // nor does a wait of half a warp
    EXPECT_TRUE(reported("race", "warp_kernel", kWarpLine));
  }
}

// Lane 0 reads before the wait, lane 1 reads and writes behind it: in order, whoever read before.
__global__ void epochs_kernel(float* out) {
  __shared__ float value;
  if (threadIdx.x == 0) value = 1;
  __syncwarp();
  float sum = value;
  __syncwarp();
  if (threadIdx.x == 1) {
    sum += value;
    value = 2;
  }
  out[threadIdx.x] = sum;
}

TEST_F(Race, ReadsBeforeASyncwarpAreInOrder) {
  DeviceArray<float> out(32);
  for (const uint64_t seed : {0, 1, 2, 3}) {
    set_schedule(seed);
    launch({1, 32}, epochs_kernel, out.data());
    EXPECT_TRUE(nothing_reported());
  }
}

enum class Mode { adds, adds_atomically, writes_pairs, reads_of_all, writes_what_others_read };
constexpr int kAddsLine = __LINE__ + 4, kPairsLine = __LINE__ + 10, kReadLine = __LINE__ + 17;
__global__ void word_kernel(int* words, int* out, Mode mode) {
  switch (mode) {
    case Mode::adds:
      words[0] += 1;
      break;
    case Mode::adds_atomically:
      atomicAdd(words, 1);
      break;
    case Mode::writes_pairs:
      words[blockIdx.x * 8 + threadIdx.x / 2] = 1;
      break;
    case Mode::reads_of_all:
      out[blockIdx.x * blockDim.x + threadIdx.x] = words[0];
      break;
    case Mode::writes_what_others_read:
      out[blockIdx.x * blockDim.x + threadIdx.x] = words[7];
      if (blockIdx.x + threadIdx.x == 0) words[7] = 1;
  }
}

TEST_F(Race, GlobalMemory) {
  DeviceArray<int> words(std::vector<int>(64, 0)), out(64);
  for (const Shape& shape : {Shape{1, 8}, Shape{8, 1}, Shape{1, 64}}) {
    launch(shape, word_kernel, words.data(), out.data(), Mode::adds_atomically);
    launch(shape, word_kernel, words.data(), out.data(), Mode::reads_of_all);
    EXPECT_TRUE(nothing_reported());
    if (!kSeesAllAccesses) continue;
    launch(shape, word_kernel, words.data(), out.data(), Mode::adds);
    EXPECT_TRUE(reported("race", "word_kernel", kAddsLine));
    launch(shape, word_kernel, words.data(), out.data(), Mode::writes_what_others_read);
    EXPECT_TRUE(reported("race", "word_kernel", kReadLine));
  }
  EXPECT_EQ(words.values()[0] >= 80, true);
  launch({2, 1}, word_kernel, words.data(), out.data(), Mode::writes_pairs);  // one thread, one word
  EXPECT_TRUE(nothing_reported());
  if (!kSeesAllAccesses) return;
  launch({2, 8}, word_kernel, words.data(), out.data(), Mode::writes_pairs);
  EXPECT_TRUE(reported("race", "word_kernel", kPairsLine));
}

// Neighbours in one word are no race, and stay none when whole words are used in between.
__global__ void neighbours_kernel(unsigned short* halves, unsigned char* bytes, unsigned* words) {
  halves[threadIdx.x] = static_cast<unsigned short>(threadIdx.x);
  bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x < 16) words[threadIdx.x] = reinterpret_cast<unsigned*>(halves)[threadIdx.x];
  if (threadIdx.x < 8) words[16 + threadIdx.x] = reinterpret_cast<unsigned*>(bytes)[threadIdx.x];
  __syncthreads();
  halves[threadIdx.x ^ 1] += 1;
  bytes[threadIdx.x ^ 3] += 1;
}

constexpr int kByteLine = __LINE__ + 1;
__global__ void overlap_kernel(unsigned char* bytes) { bytes[threadIdx.x / 2] = 1; }

TEST_F(Race, PartsOfAWord) {
  DeviceArray<unsigned short> halves(32);
  DeviceArray<unsigned char> bytes(32);
  DeviceArray<unsigned> words(24);
  for (const uint64_t seed : {0, 1, 2}) {
    set_schedule(seed);
    launch({1, 32}, neighbours_kernel, halves.data(), bytes.data(), words.data());
    EXPECT_TRUE(nothing_reported());
    EXPECT_EQ(halves.values()[7], 8);
    EXPECT_EQ(words.values()[2], 0x00050004u);
    EXPECT_EQ(words.values()[17], 0x07060504u);
  }
  if (!kSeesAllAccesses) return;
  launch({1, 32}, overlap_kernel, bytes.data());
  EXPECT_TRUE(reported("race", "overlap_kernel", kByteLine));
}

// One after the other on a stream is an order; within one launch only a barrier is, and only for the own block.
constexpr int kBlocksLine = __LINE__ + 4;
__global__ void blocks_kernel(int* words, int* out) {
  words[blockIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = words[1 - blockIdx.x];
}

TEST_F(Race, BlocksHaveNoOrder) {
  DeviceArray<int> words(std::vector<int>(2, 0)), out(2);
  launch({1, 1}, blocks_kernel, words.data(), out.data());
  launch({1, 1}, blocks_kernel, words.data(), out.data());
  EXPECT_TRUE(nothing_reported());
  if (!kSeesAllAccesses) return;
  launch({2, 1}, blocks_kernel, words.data(), out.data());
  EXPECT_TRUE(reported("race", "blocks_kernel", kBlocksLine));
}

// Many readers, and then one of them writes: each way in which one stamp has to stand for several threads.
constexpr int kReaderLine = __LINE__ + 4;
__global__ void readers_kernel(int* word, int* out, unsigned writer) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = *word;
  if (i == writer) *word = 1;
}

TEST_F(Race, AReaderThatWrites) {
  DeviceArray<int> word(std::vector<int>{0}), out(128);
  launch({}, readers_kernel, word.data(), out.data(), 0u);
  EXPECT_TRUE(nothing_reported()) << "one thread alone";
  if (!kSeesAllAccesses) return;
  for (const uint64_t seed : {0, 1, 2}) {
    set_schedule(seed);
    for (const Shape& shape : {Shape{1, 2}, Shape{1, 64}, Shape{4, 1}, Shape{2, 64}}) {
      launch(shape, readers_kernel, word.data(), out.data(), 0u);
      EXPECT_TRUE(reported("race", "readers_kernel", kReaderLine))
          << seed << " " << shape.grid.x << " " << shape.block.x;
    }
  }
}

// All read, and the last one to run writes behind a wait that not all readers take part in.
constexpr int kLateLine = __LINE__ + 9;
__global__ void late_writer_kernel(int* word, int* out, bool waits_for_block) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = *word;
  if (waits_for_block) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  if (i == gridDim.x * blockDim.x - 32) *word = 1;
}

TEST_F(Race, AWriterBehindAWaitOfAFewReaders) {
  DeviceArray<int> word(std::vector<int>{0}), out(64);
  for (const uint64_t seed : {0, 1}) {
    set_schedule(seed);
    launch({1, 64}, late_writer_kernel, word.data(), out.data(), true);
    launch({1, 32}, late_writer_kernel, word.data(), out.data(), false);
    EXPECT_TRUE(nothing_reported());
    launch({1, 64}, late_writer_kernel, word.data(), out.data(), false);
    EXPECT_TRUE(check_reported("race", "late_writer_kernel", kLateLine)) << "the other warp";
    launch({2, 32}, late_writer_kernel, word.data(), out.data(), true);
    EXPECT_TRUE(check_reported("race", "late_writer_kernel", kLateLine)) << "the other block";
  }
}

}  // namespace
}  // namespace hostcuda::test
