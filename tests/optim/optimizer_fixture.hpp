// Spans with random values, for the tests of optimizers.
#pragma once

#include <vector>

#include "autograd/core/philox.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

// The n values that belong to a number: other numbers, other values; the same in every dtype.
inline std::vector<double> random_values(int64_t n, uint32_t number, double spread = 1) {
  const RandomStream stream{.seed = 11, .site = random_site(RandomDomain::test, number), .step = 0};
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(static_cast<float>(spread * stream.normal(static_cast<uint64_t>(i))));
  }
  return values;
}

inline ParameterSpan make_span(DType dtype, const std::vector<double>& weights, const std::vector<double>& gradients,
                               bool decay) {
  const Shape shape{static_cast<int64_t>(weights.size())};
  return {from_values(shape, dtype, weights), from_values(shape, dtype, gradients), decay};
}

inline void set_gradients(const ParameterSpan& span, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    visit_accumulation(span.gradients.dtype(), [&](auto zero) {
      span.gradients.data<decltype(zero)>()[i] = static_cast<decltype(zero)>(values[i]);
    });
  }
}

// The values rounded to bf16.
inline std::vector<double> rounded_to_bf16(const std::vector<double>& values) {
  return from_values({static_cast<int64_t>(values.size())}, DType::bf16, values).values();
}

}  // namespace heed::optim
