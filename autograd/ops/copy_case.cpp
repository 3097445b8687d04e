#include "autograd/ops/copy.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

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
