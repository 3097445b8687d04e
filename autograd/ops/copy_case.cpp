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
