// That the rows of every matrix in the products of the head begin at multiples of 16 bytes, and the memory that this
// takes. Only the emulation of cuBLASLt tells.
#include <gtest/gtest.h>
#include <hostcuda.h>

#include <functional>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/ops/linear_cross_entropy.hpp"
#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"

namespace heed::test {
namespace {

// Without NaN in new memory, so that what checks every access sees reads of padding that was never written.
class AlignedRows : public CudaTestWithoutPool {
 protected:
  void SetUp() override {
    CudaTestWithoutPool::SetUp();
    set_memory_poison(false);
  }
};

constexpr int64_t kRows = 1000, kVocab = 65;

struct Inputs {
  Tensor x, weight, targets;
};

Inputs inputs(DType dtype) {
  const auto drawn = [&](const Shape& shape) {
    return draw(normal("", shape), dtype, 1).to(Device::cuda).set_requires_grad(true);
  };
  return {.x = drawn({kRows, 16}),
          .weight = drawn({kVocab, 16}),
          .targets = from_tokens({kRows}, std::vector<int32_t>(kRows, 7), Device::cuda)};
}

TEST_F(AlignedRows, OfAllProductsOfTheHead) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Inputs in = inputs(dtype);
    hostcuda::take_products();
    backward(cross_entropy(linear(in.x, in.weight, Tensor()), in.targets));
    EXPECT_EQ(hostcuda::take_products().unaligned, 3u) << "logits of 65 columns";
    for (const double softcap : {0.0, 3.0}) {
      linear_cross_entropy_and_backward(in.x, in.weight, in.targets, {.softcap = softcap, .chunk_bytes = 100'000});
      const hostcuda::Products products = hostcuda::take_products();
      EXPECT_GT(products.all, 3u) << "several chunks";
      EXPECT_EQ(products.unaligned, 0u) << name(dtype) << " softcap " << softcap;
    }
  }
}

int64_t peak_of_workspace(const std::function<void()>& run) {
  const auto workspace = [] {
    return memory_report(Device::cuda).category[static_cast<size_t>(MemoryCategory::workspace)];
  };
  reset_memory_peaks(Device::cuda);
  const int64_t before = workspace().current_bytes;
  run();
  return workspace().peak_bytes - before;
}

// The pool rounds sizes up: for these rows to others with padding than without.
TEST_F(AlignedRows, TakeTheMemoryThatIsExpected) {
  constexpr int64_t kWorkspaceOfAProduct = 4096;
  EXPECT_EQ(linear_cross_entropy_chunk_bytes(kRows, kVocab, DType::f32, Device::cuda, {}), kRows * 68 * 4);
  EXPECT_EQ(linear_cross_entropy_chunk_bytes(kRows, kVocab, DType::bf16, Device::cuda, {}), kRows * 72 * 2);
  EXPECT_EQ(linear_cross_entropy_chunk_bytes(kRows, kVocab, DType::bf16, Device::cpu, {}), kRows * 65 * 2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double softcap : {0.0, 3.0}) {
      const Inputs in = inputs(dtype);
      const LinearCrossEntropyOptions options{.losses = empty({kRows}, DType::f64, Device::cuda), .softcap = softcap};
      const int64_t tensors = softcap > 0 ? 2 : 1;  // logits, and their gradients
      const int64_t bytes = linear_cross_entropy_chunk_bytes(kRows, kVocab, dtype, Device::cuda, options);
      const Shape shape{bytes / tensors / size_bytes(dtype)};
      const int64_t tensor = peak_of_workspace([&] { empty(shape, dtype, Device::cuda, MemoryCategory::workspace); });
      EXPECT_EQ(peak_of_workspace([&] { linear_cross_entropy_and_backward(in.x, in.weight, in.targets, options); }),
                tensors * tensor + kWorkspaceOfAProduct)
          << name(dtype) << " softcap " << softcap;
    }
  }
}

}  // namespace
}  // namespace heed::test
