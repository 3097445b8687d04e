// NaN in what attention must not read: checks that hold in any dtype on any device.
#pragma once

#include "tests/autograd/attention_run.hpp"

namespace heed::test {

using IsChosen = std::function<bool(int64_t batch, int64_t position)>;

// x with the chosen rows replaced by NaN.
inline Tensor poison(const Tensor& x, const IsChosen& is_poisoned) {
  const int64_t rows = x.shape()[1], columns = x.shape()[2];
  const Values clean = x.values();
  const Values poisoned = numbers(x.numel(), [&](int64_t i) {
    const int64_t row = i / columns;
    return is_poisoned(row / rows, row % rows) ? std::numeric_limits<double>::quiet_NaN()
                                               : clean[static_cast<size_t>(i)];
  });
  return from_values(x.shape(), x.dtype(), poisoned, x.device());
}

// Elements of the chosen rows, in order.
inline Values rows_of(const Values& values, const Shape& shape, const IsChosen& is_chosen) {
  const int64_t rows = shape[1], columns = shape[2];
  Values chosen;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t row = i / columns;
    if (is_chosen(row / rows, row % rows)) chosen.push_back(values[static_cast<size_t>(i)]);
  }
  return chosen;
}

inline void expect_zeros(const Values& values) {
  EXPECT_FALSE(values.empty());
  for (const double v : values) EXPECT_EQ(v, 0.0);
}

// Where and in what attention is run.
struct HeadPlace {
  DType dtype = DType::f32;
  int64_t head_size = 1;
  Device device = Device::cpu;
};

// NaN in every masked position changes no bit elsewhere, and the masked positions themselves give exact zeros.
inline void expect_padding_untouched(const HeadPlace& place) {
  constexpr int64_t kLength = 100, kHeads = 2;
  const std::vector<int32_t> lengths{100, 0, 64, 1, 30};
  const Shape shape{5, kLength, kHeads * place.head_size};
  const Inputs in = random_inputs(shape, shape, place.dtype, place.device);
  for (const PaddingSide side : {PaddingSide::right, PaddingSide::left}) {
    for (const bool causal : {true, false}) {
      const auto is_padding = [&](int64_t b, int64_t t) {
        const int64_t length = lengths[static_cast<size_t>(b)];
        return side == PaddingSide::right ? t >= length : t < kLength - length;
      };
      const auto poisoned = [&](const Tensor& x) { return poison(x, is_padding); };
      const AttentionOptions options{
          .num_heads = kHeads, .causal = causal, .lengths = from_tokens({5}, lengths, place.device), .side = side};
      const Result clean = run(in, options);
      expect_same_bits(clean, run({poisoned(in.q), poisoned(in.k), poisoned(in.v), poisoned(in.dy)}, options));
      for (const Values* values : {&clean.y, &clean.dq, &clean.dk, &clean.dv}) {
        expect_zeros(rows_of(*values, shape, is_padding));
      }
    }
  }
}

// NaN in position `at` of q, k, v and dy, causal: what does not depend on it keeps its bits, what does is NaN.
inline void expect_future_untouched(const HeadPlace& place, int64_t length, const std::vector<int64_t>& positions) {
  const Shape shape{1, length, 2 * place.head_size};
  const Inputs in = random_inputs(shape, shape, place.dtype, place.device);
  const AttentionOptions options{.num_heads = 2};
  const Result clean = run(in, options);
  using IsNan = std::function<bool(int64_t)>;
  const auto expect_rows = [&](const Values& got, const Values& want, const IsNan& is_nan) {
    const auto spared = [&](int64_t, int64_t t) { return !is_nan(t); };
    const auto hit = [&](int64_t, int64_t t) { return is_nan(t); };
    expect_same_bits(rows_of(got, shape, spared), rows_of(want, shape, spared));
    for (const double value : rows_of(got, shape, hit)) EXPECT_TRUE(std::isnan(value));
  };
  for (const int64_t at : positions) {
    SCOPED_TRACE(at);
    const auto here = [&](int64_t, int64_t t) { return t == at; };
    const IsNan only = [&](int64_t t) { return t == at; }, before = [&](int64_t t) { return t <= at; },
                after = [&](int64_t t) { return t >= at; }, all = [](int64_t) { return true; },
                none = [](int64_t) { return false; };
    const auto expect = [&](const Inputs& poisoned, const IsNan& y, const IsNan& dq, const IsNan& dk, const IsNan& dv) {
      const Result got = run(poisoned, options);
      expect_rows(got.y, clean.y, y);
      expect_rows(got.dq, clean.dq, dq);
      expect_rows(got.dk, clean.dk, dk);
      expect_rows(got.dv, clean.dv, dv);
    };
    expect({poison(in.q, here), in.k, in.v, in.dy}, only, only, before, before);
    expect({in.q, poison(in.k, here), in.v, in.dy}, after, after, all, all);
    expect({in.q, in.k, poison(in.v, here), in.dy}, after, after, all, none);
    expect({in.q, in.k, in.v, poison(in.dy, here)}, none, only, before, before);
  }
}

}  // namespace heed::test
