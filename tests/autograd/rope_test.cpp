#include "autograd/ops/rope.hpp"

#include <gtest/gtest.h>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

// An intermediate gradient that nothing else holds is turned where it is.
TEST(Rope, TheGradientIsTheSameInPlace) {
  const Tensor table = draw(normal("table", {9, 4}), DType::f32, 1);
  const RopeOptions options{.num_heads = 3, .rotated_heads = 2, .first_position = 4};
  const Tensor leaf = draw(normal("x", {2, 5, 18}), DType::f32, 2).set_requires_grad(true);
  const Tensor dy = draw(normal("dy", leaf.shape()), DType::f32, 3);
  backward(rope(leaf, table, options), dy);
  const std::vector<double> apart = leaf.grad().values();
  leaf.set_grad(Tensor());
  backward(scale(rope(scale(leaf, 1), table, options), 1), dy);
  EXPECT_EQ(leaf.grad().values(), apart);
}

}  // namespace
}  // namespace heed::test
