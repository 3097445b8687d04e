#include "autograd/ops/reduce.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

void declare(OpCase& op, Tensor (*run)(const Tensor&), bool divide) {
  const auto make = [&](const Shape& shape) {
    return OpSample{.label = shape.text(),
                    .inputs = {normal("x", shape, 0.5)},
                    .run = [run](const Tensors& in) { return run(in[0]); },
                    .reference = plain([divide](const auto& in) {
                      using S = std::decay_t<decltype(in[0].values[0])>;
                      S sum = 0;
                      for (const S& v : in[0].values) sum += v;
                      return std::vector<S>{divide ? sum / S(in[0].shape.numel()) : sum};
                    }),
                    .flops = static_cast<double>(shape.numel()),
                    .bytes = static_cast<double>(shape.numel()) * sizeof(float),
                    .backward_bytes = static_cast<double>(shape.numel()) * sizeof(float)};
  };
  // One element, a part of a vector, whole blocks of the kernel and some more.
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{2, 3, 65}, Shape{4096}, Shape{3, 4099}}) {
    op.sample(make(shape));
  }
  op.bench(make({768, 512}));
  op.bench(make({16384, 3072}), Device::cuda);
  op.error<DTypeError>(
      "tokens", [run] { run(from_tokens({1}, {1})); }, op.name + ": x is i32");
}

}  // namespace

OP_CASE(sum) { declare(op, sum, false); }

OP_CASE(mean) {
  declare(op, mean, true);
  op.error<ShapeError>(
      "no elements",
      [] {
        mean(zeros({0, 3}, DType::f32));
      },
      "mean: x has shape (0, 3)");
}
