// The padding of the rows of logits on CUDA: in every product and kernel of the head it may be NaN, and changes nothing
// but the order of sums.
#include "autograd/ops/linear_cross_entropy.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/check/op_case.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/gemm.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/op_runs.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using LinearCrossEntropyOnCuda = CudaTest;

constexpr int64_t kRows = 21, kWidth = 16, kVocab = 65, kPadded = 72;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor drawn(const Shape& shape, DType dtype, uint32_t seed) {
  return draw(normal("", shape), dtype, seed).to(Device::cuda).set_requires_grad(true);
}

Tensor drawn_targets(int64_t vocab) {
  Tensor targets = draw(tokens("targets", {kRows}, static_cast<int32_t>(vocab)), DType::f32, 3);
  targets.data<int32_t>()[4] = -1;
  return targets.to(Device::cuda);
}

// `rows` of as many values, each followed by NaN up to kPadded values.
Tensor padded(const Tensor& rows) {
  const int64_t columns = rows.shape().columns();
  const Values values = rows.values();
  Values result(static_cast<size_t>(rows.shape().rows() * kPadded), kNan);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto element = static_cast<int64_t>(i);
    result[static_cast<size_t>(element / columns * kPadded + element % columns)] = values[i];
  }
  return from_values({rows.shape().rows(), kPadded}, rows.dtype(), result, Device::cuda);
}

// The first `columns` values of each row.
Values without_padding(const Tensor& matrix, int64_t columns) {
  const Values values = matrix.values();
  Values result;
  for (int64_t i = 0; i < matrix.numel(); ++i) {
    if (i % matrix.shape().columns() < columns) result.push_back(values[static_cast<size_t>(i)]);
  }
  return result;
}

void expect_near(const Values& found, const Values& expected, DType dtype) {
  ASSERT_EQ(found.size(), expected.size());
  for (const double value : found) ASSERT_TRUE(std::isfinite(value));
  EXPECT_LE(distance(found, expected), largest(expected) * (dtype == DType::f32 ? kMicroBatchGradient : kBf16Epsilon));
}

// Loss, and the gradients of x and weight.
template <class F>
std::vector<Values> outcome(int64_t vocab, DType dtype, F run) {
  const Tensor x = drawn({kRows, kWidth}, dtype, 1), weight = drawn({vocab, kWidth}, dtype, 2);
  const Tensor loss = run(x, weight, drawn_targets(vocab));
  return {{loss.item()}, x.grad().values(), weight.grad().values()};
}

// CudaTest fills new memory with NaN, so that the padding begins as NaN.
TEST_F(LinearCrossEntropyOnCuda, PaddingChangesNothingButRounding) {
  for (const int64_t vocab : {65, 67, 5, 64}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const double cap : {0.0, 3.0}) {
        const auto expected = outcome(vocab, dtype, [&](const Tensor& x, const Tensor& weight, const Tensor& targets) {
          Tensor logits = linear(x, weight, Tensor());
          if (cap > 0) logits = softcap(logits, cap);
          Tensor loss = cross_entropy(logits, targets);
          backward(loss);
          return loss;
        });
        for (const int64_t chunk_bytes : {1'000'000, 4000, 1}) {
          SCOPED_TRACE(fmt::format("{} {} softcap {} chunk {}", vocab, name(dtype), cap, chunk_bytes));
          const LinearCrossEntropyOptions options{.softcap = cap, .chunk_bytes = chunk_bytes};
          const auto found = outcome(vocab, dtype, [&](const Tensor& x, const Tensor& weight, const Tensor& targets) {
            return linear_cross_entropy_and_backward(x, weight, targets, options);
          });
          for (size_t part = 0; part < expected.size(); ++part) expect_near(found[part], expected[part], dtype);
        }
      }
    }
  }
}

TEST_F(LinearCrossEntropyOnCuda, LinearReadsNoPadding) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = drawn({kRows, kWidth}, dtype, 1), weight = drawn({kVocab, kWidth}, dtype, 2);
    const Tensor y = full({kRows, kPadded}, dtype, kNan, Device::cuda);
    cuda::linear_forward(context(Device::cuda), {.y = y.ref(), .x = x, .weight = weight});
    const Tensor expected = linear(x, weight, Tensor());
    expect_near(without_padding(y, kVocab), expected.values(), dtype);

    const Tensor dy = drawn({kRows, kVocab}, dtype, 4);
    backward(expected, dy);
    const Tensor dx = empty(x.shape(), dtype, Device::cuda), dweight = empty(weight.shape(), DType::f32, Device::cuda);
    cuda::linear_backward(context(Device::cuda),
                          {.dx = {dx.ref()}, .dweight = {dweight.ref()}, .dy = padded(dy), .x = x, .weight = weight});
    expect_near(dx.values(), x.grad().values(), dtype);
    expect_near(dweight.values(), weight.grad().values(), dtype);
  }
}

TEST_F(LinearCrossEntropyOnCuda, CrossEntropyReadsNoPadding) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor logits = drawn({kRows, kVocab}, dtype, 1), targets = drawn_targets(kVocab);
    const Tensor wide = padded(logits).set_requires_grad(true);
    const Tensor expected = cross_entropy(logits, targets);
    const Tensor found = cross_entropy(wide, targets, {.vocab = kVocab});
    backward(expected);
    backward(found);
    EXPECT_NEAR(found.item(), expected.item(), kF32);
    expect_near(without_padding(wide.grad(), kVocab), logits.grad().values(), dtype);
  }
}

TEST_F(LinearCrossEntropyOnCuda, ProductsOfNoColumnsClearPaddedRows) {
  const Tensor none = full({3, 0}, DType::f32, 0, Device::cuda), weight = full({5, 0}, DType::f32, 0, Device::cuda);
  const Tensor y = full({3, 8}, DType::f32, kNan, Device::cuda);
  cuda::linear_forward(context(Device::cuda), {.y = y.ref(), .x = none, .weight = weight});
  EXPECT_EQ(without_padding(y, 5), Values(15, 0));
}

TEST_F(LinearCrossEntropyOnCuda, NoBiasForPaddedRows) {
  const Tensor x = drawn({kRows, kWidth}, DType::f32, 1), weight = drawn({kVocab, kWidth}, DType::f32, 2);
  const Tensor y = empty({kRows, kPadded}, DType::f32, Device::cuda), bias = drawn({kVocab}, DType::f32, 3);
  EXPECT_THROW(cuda::linear_forward(context(Device::cuda), {.y = y.ref(), .x = x, .weight = weight, .bias = bias}),
               ShapeError);
}

}  // namespace
}  // namespace heed::test
