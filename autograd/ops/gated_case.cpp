#include "autograd/ops/gated.hpp"

#include <cmath>

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
S plain_silu(const S& x) {
  using std::exp;
  return x / (S(1) + exp(S(0) - x));
}

template <class S>
S plain_gelu(const S& x) {
  using std::tanh;
  return S(0.5) * x * (S(1) + tanh(S(0.7978845608028654) * (x + S(0.044715) * x * x * x)));
}

template <class F>
Reference reference_of(F f) {
  return plain([f](const auto& in) {
    const int64_t columns = in[0].shape.columns(), half = columns / 2;
    std::vector<std::decay_t<decltype(in[0][0])>> y;
    for (int64_t row = 0; row < in[0].shape.numel() / std::max<int64_t>(columns, 1); ++row) {
      for (int64_t j = 0; j < half; ++j) y.push_back(f(in[0][row * columns + j]) * in[0][row * columns + half + j]);
    }
    return y;
  });
}

void declare(OpCase& op, Tensor (*run)(const Tensor&), const Reference& reference) {
  const auto make = [=](const Shape& shape) {
    const double bytes = static_cast<double>(shape.numel()) * sizeof(float);
    return OpSample{.label = shape.text(),
                    .inputs = {normal("h", shape, 0, 2)},
                    .run = [run](const Tensors& in) { return run(in[0]); },
                    .reference = reference,
                    .flops = 10.0 * static_cast<double>(shape.numel()),
                    .bytes = 1.5 * bytes,
                    .backward_bytes = 2.5 * bytes};
  };
  // Parts of a vector, vectors and some more, enough rows for all threads; on CUDA whole vectors or none.
  for (const Shape& shape :
       {Shape{2}, Shape{3, 10}, Shape{2, 3, 66}, Shape{70, 64}, Shape{3, 2002}, Shape{0, 4}, Shape{3, 0}}) {
    op.sample(make(shape));
  }
  op.error<ShapeError>(
      "a scalar", [run] { run(full({}, DType::f32, 1.0)); }, op.name + ": h has shape ()");
  op.error<ShapeError>(
      "an odd width",
      [run] {
        run(full({2, 3}, DType::f32, 1.0));
      },
      "h has shape (2, 3), its last dimension must be even");
  op.error<DTypeError>(
      "tokens",
      [run] {
        run(from_tokens({2}, {1, 1}));
      },
      op.name + ": h is i32");
  op.bench(make({768, 1024}));
  op.bench(make({16384, 4096}), Device::cuda);
}

}  // namespace

OP_CASE(swiglu) {
  declare(op, swiglu, reference_of([](const auto& x) { return plain_silu(x); }));
}

OP_CASE(geglu) {
  declare(op, geglu, reference_of([](const auto& x) { return plain_gelu(x); }));
}
