// What the tests of attention share: one forward and backward, and how results are compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/tape.hpp"

namespace heed::test {

using Values = std::vector<double>;

inline Values numbers(int64_t count, const std::function<double(int64_t)>& value) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value(i));
  return values;
}

inline Tensor random(const char* name, const Shape& shape, DType dtype = DType::f32) {
  return draw(normal(name, shape), dtype, 1);
}

// Output, and gradients for a given gradient of the output.
struct Result {
  Values y, dq, dk, dv;
};

struct Inputs {
  Tensor q, k, v, dy;
};
inline Inputs random_inputs(const Shape& q, const Shape& k, DType dtype = DType::f32, Device device = Device::cpu) {
  const auto make = [&](const char* name, const Shape& shape) { return random(name, shape, dtype).to(device); };
  return {make("q", q), make("k", k), make("v", k), make("dy", q)};
}

inline Result run(const Inputs& in, const AttentionOptions& options) {
  const Tensor leaves[] = {in.q.detach(), in.k.detach(), in.v.detach()};
  for (const Tensor& leaf : leaves) leaf.set_requires_grad(true);
  const Tensor y = attention(leaves[0], leaves[1], leaves[2], options);
  backward(y, in.dy);
  return {y.values(), leaves[0].grad().values(), leaves[1].grad().values(), leaves[2].grad().values()};
}

inline void expect_same_bits(const Values& a, const Values& b) {
  const auto same = [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); };
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end(), same));
}
inline void expect_same_bits(const Result& a, const Result& b) {
  expect_same_bits(a.y, b.y);
  expect_same_bits(a.dq, b.dq);
  expect_same_bits(a.dk, b.dk);
  expect_same_bits(a.dv, b.dv);
}

// Error relative to the largest element, or to 1, the size of the inputs, where all are smaller.
inline void expect_close(const Values& got, const Values& want, double bound, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 1, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    const double e = std::abs(got[i] - want[i]);
    error = std::isnan(e) ? std::numeric_limits<double>::infinity() : std::max(error, e);
  }
  EXPECT_LE(error, bound * largest) << what;
}

}  // namespace heed::test
