#include "autograd/ops/rope.hpp"

#include <cmath>

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

struct Setting {
  const char* label;
  int64_t batch, length, head_size, columns;  // columns: those of a head that turn
  RopeOptions options;
  double base = 10000;

  double angle(int64_t position, int64_t pair) const {
    const double exponent = -2 * static_cast<double>(pair) / static_cast<double>(columns);
    return static_cast<double>(position) * std::pow(base, exponent);
  }
};

Tensor table_of(const Setting& s, DType dtype, Device device) {
  std::vector<double> values;
  const int64_t positions = s.options.first_position + s.length;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t i = 0; i < s.columns / 2; ++i) values.push_back(std::cos(s.angle(t, i)));
    for (int64_t i = 0; i < s.columns / 2; ++i) values.push_back(std::sin(s.angle(t, i)));
  }
  return from_values({positions, s.columns}, dtype, values, device);
}

template <class S>
std::vector<S> reference(const ReferenceInput<S>& x, const Setting& s) {
  std::vector<S> y = x.values;
  const int64_t width = s.options.num_heads * s.head_size, half = s.columns / 2;
  const int64_t rotated = s.options.rotated_heads == 0 ? s.options.num_heads : s.options.rotated_heads;
  for (int64_t row = 0; row < s.batch * s.length; ++row) {
    for (int64_t head = 0; head < rotated; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = s.angle(s.options.first_position + row % s.length, i);
        const auto cosine = static_cast<S>(std::cos(angle)), sine = static_cast<S>(std::sin(angle));
        const int64_t at = row * width + head * s.head_size + i;
        y[static_cast<size_t>(at)] = x[at] * cosine - x[at + half] * sine;
        y[static_cast<size_t>(at + half)] = x[at + half] * cosine + x[at] * sine;
      }
    }
  }
  return y;
}

OpSample sample(const Setting& s) {
  const Shape shape{s.batch, s.length, s.options.num_heads * s.head_size};
  const double bytes = static_cast<double>(shape.numel()) * sizeof(float);
  return {.label = s.label,
          .inputs = {normal("x", shape)},
          .run =
              [s](const Tensors& in) {
                const DType dtype = accumulation_dtype(in[0].dtype());
                return rope(in[0], table_of(s, dtype, in[0].device()), s.options);
              },
          .reference = plain([s](const auto& in) { return reference(in[0], s); }),
          .flops = 3 * static_cast<double>(shape.numel()),
          .bytes = 2 * bytes,
          .backward_bytes = 2 * bytes};
}

Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); }

}  // namespace

OP_CASE(rope) {
  op.sample(sample({"one pair", 1, 1, 2, 2, {}}));
  op.sample(sample({"all heads", 2, 3, 6, 6, {.num_heads = 4}}));
  op.sample(sample({"packed GQA", 2, 5, 8, 8, {.num_heads = 8, .rotated_heads = 6}}));
  op.sample(sample({"a part of an odd head", 2, 4, 7, 4, {.num_heads = 3, .rotated_heads = 2}, 100}));
  op.sample(sample({"after a cache", 1, 2, 10, 10, {.num_heads = 2, .first_position = 37}}));
  op.sample(sample({"vectors", 2, 3, 64, 64, {.num_heads = 3, .rotated_heads = 2}}));
  op.sample(sample({"vectors of a part", 1, 5, 64, 32, {.num_heads = 3, .rotated_heads = 2}}));

  const Tensor table = full({5, 4}, DType::f32, 1.0);
  op.error<DTypeError>(
      "tokens",
      [=] {
        rope(from_tokens({1, 1, 4}, {1, 1, 1, 1}), table, {});
      },
      "rope: x is i32");
  op.error<DTypeError>(
      "table",
      [=] {
        rope(ones({1, 1, 4}, DType::f64), table, {});
      },
      "rope: table is f32, for x in f64 it must be f64");
  op.error<ShapeError>(
      "rank",
      [=] {
        rope(ones({1, 4}), table, {});
      },
      "rope: x has shape (1, 4), it must be (B, T, 1 heads * head size)");
  op.error<ShapeError>(
      "heads",
      [=] {
        rope(ones({1, 1, 8}), table, {.num_heads = 3});
      },
      "x has shape (1, 1, 8)");
  op.error<ShapeError>(
      "head size",
      [=] {
        rope(ones({1, 1, 6}), table, {.num_heads = 2});
      },
      "table has shape (5, 4), it must be (positions, R) with an even R of at most the head size 3");
  op.error<ValueError>(
      "rotated heads",
      [=] {
        rope(ones({1, 1, 8}), table, {.num_heads = 2, .rotated_heads = 3});
      },
      "3 of 2 heads are rotated");
  op.error<ValueError>(
      "too long",
      [=] {
        rope(ones({1, 6, 4}), table, {});
      },
      "x has 6 positions from 0 on, the table ends at 5");
  op.error<ValueError>(
      "too far",
      [=] {
        rope(ones({1, 2, 4}), table, {.first_position = 4});
      },
      "x has 2 positions from 4 on");
  op.error<ShapeError>(
      "odd columns",
      [] {
        rope(ones({1, 1, 4}), ones({5, 3}), {});
      },
      "table has shape (5, 3)");

  op.bench(sample({"(12, 64, 384)", 12, 64, 32, 32, {.num_heads = 12, .rotated_heads = 8}}));
  op.bench(sample({"(16, 1024, 2304)", 16, 1024, 64, 64, {.num_heads = 36, .rotated_heads = 24}}), Device::cuda);
}
