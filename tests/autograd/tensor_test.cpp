#include "autograd/tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/tape.hpp"
#include "tests/support/plain_ops.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

TEST(Tensor, CopiesAreTheSameTensor) {
  const Tensor a = from_values({2}, DType::f32, {1, 2});
  const Tensor b = a;
  b.data<float>()[0] = 9;
  EXPECT_EQ(a.values(), (Values{9, 2}));
  a.set_requires_grad(true);
  EXPECT_TRUE(b.requires_grad());
}

TEST(Tensor, CloneIsANewOne) {
  const Tensor a = leaf({2}, {1, 2});
  const Tensor b = a.clone();
  b.data<double>()[0] = 9;
  EXPECT_EQ(a.values(), (Values{1, 2}));
  EXPECT_FALSE(b.requires_grad());
  EXPECT_EQ(zeros({0}, DType::f32).clone().numel(), 0);
}

TEST(Tensor, DetachSharesMemoryButNotTheGraph) {
  const Tensor a = leaf({2}, {1, 2});
  const Tensor y = scaled(a, 2);
  const Tensor b = y.detach();
  EXPECT_FALSE(b.requires_grad());
  b.data<double>()[0] = 9;
  EXPECT_EQ(y.values(), (Values{9, 4}));
}

TEST(Tensor, SliceIsAPartOfTheSameMemory) {
  const Tensor flat = from_values({6}, DType::f32, {0, 1, 2, 3, 4, 5});
  const Tensor part = flat.slice(2, {2, 2});
  EXPECT_EQ(part.shape(), (Shape{2, 2}));
  EXPECT_EQ(part.values(), (Values{2, 3, 4, 5}));
  EXPECT_EQ(part.slice(1, {2}).values(), (Values{3, 4})) << "a slice of a slice";
  part.data<float>()[0] = 9;
  EXPECT_EQ(flat.values(), (Values{0, 1, 9, 3, 4, 5}));
  EXPECT_EQ(flat.slice(6, {0}).numel(), 0);
  EXPECT_EQ(from_tokens({3}, {7, 8, 9}).slice(1, {2}).values(), (Values{8, 9}));
}

TEST(Tensor, SliceMustFit) {
  const Tensor flat = zeros({6}, DType::f32);
  EXPECT_THROW(flat.slice(5, {2}), ShapeError);
  EXPECT_THROW(flat.slice(0, {7}), ShapeError);
  EXPECT_THROW(flat.slice(-1, {2}), ShapeError);
  EXPECT_THROW(flat.slice(7, {0}), ShapeError);
  EXPECT_THROW(flat.slice(std::numeric_limits<int64_t>::max(), {2}), ShapeError) << "the end must not overflow";
}

TEST(Tensor, MemoryOutlivesTheHandleItWasMadeWith) {
  Tensor part;
  {
    const Tensor flat = from_values({4}, DType::f64, {1, 2, 3, 4});
    part = flat.slice(2, {2});
  }
  EXPECT_EQ(part.values(), (Values{3, 4}));
}

TEST(Tensor, UniqueMeansThatNobodyElseSeesIt) {
  Tensor a = zeros({2}, DType::f32);
  EXPECT_TRUE(a.unique());
  {
    const Tensor b = a;
    EXPECT_FALSE(a.unique());
  }
  EXPECT_TRUE(a.unique());
  const Tensor part = a.slice(0, {1});
  EXPECT_FALSE(a.unique());
  EXPECT_FALSE(part.unique());
}

TEST(Tensor, ReadsOnlyItsOwnDtype) {
  EXPECT_THROW(zeros({2}, DType::f32).data<double>(), DTypeError);
  EXPECT_THROW(zeros({2}, DType::f64).data<float>(), DTypeError);
  EXPECT_THROW(zeros({2}, DType::f32).data<int32_t>(), DTypeError);
  EXPECT_THROW(from_tokens({1}, {1}).item(), DTypeError);
  const ConstTensorRef ref = zeros({2}, DType::f32);
  EXPECT_THROW(ref.as<double>(), DTypeError);
  EXPECT_EQ(TensorRef{}.as<double>(), nullptr) << "an output that nobody needs";
}

TEST(Tensor, ItemAndValues) {
  EXPECT_EQ(full({}, DType::f32, 2.5).item(), 2.5);
  EXPECT_EQ(full({1, 1}, DType::f64, 2.5).item(), 2.5);
  EXPECT_THROW(full({2}, DType::f32, 2.5).item(), ShapeError);
  EXPECT_THROW(zeros({0}, DType::f32).item(), ShapeError);
  EXPECT_EQ(from_values({}, DType::f32, {0.1}).item(), static_cast<double>(0.1f));
  EXPECT_EQ(from_tokens({3}, {-1, 0, std::numeric_limits<int32_t>::max()}).values(), (Values{-1, 0, 2147483647}));
}

TEST(Tensor, NumberOfValuesMustFit) {
  EXPECT_THROW(from_values({3}, DType::f32, {1, 2}), ShapeError);
  EXPECT_THROW(from_values({1}, DType::f32, {1, 2}), ShapeError);
  EXPECT_THROW(from_values({2}, DType::i32, {1, 2}), DTypeError);
  EXPECT_THROW(from_tokens({3}, {1, 2}), ShapeError);
}

TEST(Tensor, ZerosAreZeroInPoisonedMemory) {
  set_memory_poison(true);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    EXPECT_EQ(zeros({37}, dtype).values(), Values(37, 0.0)) << name(dtype);
  }
  for (const double v : empty({37}, DType::f32).values()) EXPECT_TRUE(std::isnan(v));
  set_memory_poison(false);
}

TEST(Tensor, OnlyLeavesTakeGradients) {
  const Tensor x = leaf({2}, {1, 2});
  const Tensor y = scaled(x, 2);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_THROW(y.set_requires_grad(true), GraphError);
  EXPECT_THROW(y.set_grad(zeros({2}, DType::f64)), GraphError);
  EXPECT_THROW(x.set_grad(zeros({3}, DType::f64)), ShapeError);
  EXPECT_THROW(x.set_grad(zeros({2}, DType::f32)), DTypeError);
  EXPECT_THROW(from_tokens({2}, {1, 2}).set_requires_grad(true), DTypeError);
  EXPECT_FALSE(x.grad());
  x.set_grad(zeros({2}, DType::f64));
  EXPECT_TRUE(x.grad());
  x.set_grad(Tensor());
  EXPECT_FALSE(x.grad());
  x.set_requires_grad(false);
  EXPECT_FALSE(scaled(x, 2).requires_grad());
}

TEST(Tensor, AnEmptyHandleSaysSo) {
  const Tensor none;
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.requires_grad());
  EXPECT_FALSE(none.grad());
  EXPECT_FALSE(none.ref());
  EXPECT_THROW(none.shape(), GraphError);
  EXPECT_THROW(none.dtype(), GraphError);
  EXPECT_THROW(none.device(), GraphError);
  EXPECT_THROW(none.numel(), GraphError);
  EXPECT_THROW(none.clone(), GraphError);
  EXPECT_THROW(none.detach(), GraphError);
  EXPECT_THROW(none.item(), GraphError);
  EXPECT_THROW(none.set_requires_grad(true), GraphError);
  EXPECT_THROW(none.set_grad(Tensor()), GraphError);
}

TEST(Tensor, SizesBeyondMemoryAreRefused) {
  EXPECT_THROW(empty({std::numeric_limits<int64_t>::max()}, DType::f64), ShapeError) << "bytes beyond 63 bits";
  EXPECT_THROW(empty({int64_t{1} << 60}, DType::f32), MemoryError);
  EXPECT_THROW(zeros({int64_t{1} << 60}, DType::f32), MemoryError);
}

}  // namespace
}  // namespace heed::test
