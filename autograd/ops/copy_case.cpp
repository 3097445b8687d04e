#include "autograd/ops/copy.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

OpSample cast_sample(const Shape& shape, DType dtype) {
  return {.label = fmt::format("{} to {}", shape, dtype),
          .inputs = {normal("x", shape)},
          .run = [dtype](const Tensors& in) { return cast(in[0], dtype); },
          .reference = plain([](const auto& in) { return in[0].values; }),
          // Rounding to f32 makes steps of the function.
          .check_gradients_by_differences = dtype == DType::f64,
          .needs_f64 = dtype == DType::f64,
          .bytes = 12.0 * static_cast<double>(shape.numel())};
}

}  // namespace

OP_CASE(copy) {
  const auto make = [](const Shape& shape) {
    return OpSample{.label = shape.text(),
                    .inputs = {normal("x", shape)},
                    .run = [](const Tensors& in) { return copy(in[0]); },
                    .reference = plain([](const auto& in) { return in[0].values; }),
                    .bytes = 2.0 * static_cast<double>(shape.numel()) * sizeof(float),
                    .backward_bytes = 2.0 * static_cast<double>(shape.numel()) * sizeof(float)};
  };
  for (const Shape& shape : {Shape{}, Shape{3, 5}, Shape{3, 7001}}) op.sample(make(shape));
  op.bench(make({768, 512}));
  op.bench(make({16384, 3072}), Device::cuda);
}

OP_CASE(reshape) {
  const auto make = [](const Shape& from, const Shape& to) {
    const double bytes = 2.0 * static_cast<double>(from.numel()) * sizeof(float);
    return OpSample{.label = fmt::format("{} to {}", from, to),
                    .inputs = {normal("x", from)},
                    .run = [to](const Tensors& in) { return reshape(in[0], to); },
                    .reference = plain([](const auto& in) { return in[0].values; }),
                    .bytes = bytes,
                    .backward_bytes = bytes};
  };
  for (const auto& [from, to] : {std::pair{Shape{}, Shape{1, 1}}, {Shape{2, 3, 65}, Shape{26, 15}}}) {
    op.sample(make(from, to));
  }
  op.sample({.label = "a dimension of -1",
             .inputs = {normal("x", {4, 6})},
             .run =
                 [](const Tensors& in) {
                   return reshape(in[0], {2, -1, 3});
                 },
             .reference = plain([](const auto& in) { return in[0].values; })});
  op.bench(make({768, 512}, {512, 768}));
  op.bench(make({16384, 3072}, {3072, 16384}), Device::cuda);

  const auto x = [] { return full({2, 3}, DType::f32, 1.0); };
  op.error<ShapeError>(
      "another number of elements",
      [=] {
        reshape(x(), {4, 2});
      },
      "reshape: x has shape (2, 3) and 6 elements, but (4, 2) has 8");
  op.error<ShapeError>(
      "no size for -1",
      [=] {
        reshape(x(), {4, -1});
      },
      "reshape: x has shape (2, 3) and 6 elements, which leave no size for -1 in (4, -1)");
  op.error<ShapeError>(
      "any size for -1",
      [=] {
        reshape(zeros({0, 3}, DType::f32), {0, -1});
      },
      "leave no size for -1 in (0, -1)");
  op.error<ShapeError>(
      "two of -1",
      [=] {
        reshape(x(), {-1, -1});
      },
      "reshape: one dimension of (-1, -1) may be -1, not 2");
  op.error<ShapeError>(
      "a negative dimension",
      [=] {
        reshape(x(), {-2, 3});
      },
      "a dimension of a shape is -2");
}

OP_CASE(cast) {
  for (const Shape& shape : {Shape{}, Shape{3, 5}, Shape{3, 7001}}) {
    for (const DType dtype : {DType::f32, DType::f64}) op.sample(cast_sample(shape, dtype));
  }
  op.bench(cast_sample({768, 512}, DType::f64));
  op.error<DTypeError>(
      "to tokens", [] { cast(full({2}, DType::f32, 1.0), DType::i32); }, "cast: from f32 to i32");
  op.error<DTypeError>(
      "from tokens", [] { cast(from_tokens({1}, {1}), DType::f32); }, "cast: from i32 to f32");
}
