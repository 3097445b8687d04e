#include "autograd/ops/softmax.hpp"

#include <cmath>

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
std::vector<S> reference(const ReferenceInput<S>& in, bool log_of_it) {
  using std::exp;
  using std::log;
  const int64_t rows = in.shape.rows(), columns = in.shape.columns();
  std::vector<S> y;
  if (columns == 0) return y;
  for (int64_t row = 0; row < rows; ++row) {
    const S* x = &in.values[static_cast<size_t>(row * columns)];
    S max = x[0], sum = 0;
    for (int64_t j = 1; j < columns; ++j) max = x[j] > max ? x[j] : max;
    for (int64_t j = 0; j < columns; ++j) sum += exp(x[j] - max);
    for (int64_t j = 0; j < columns; ++j) y.push_back(log_of_it ? x[j] - max - log(sum) : exp(x[j] - max) / sum);
  }
  return y;
}

void declare(OpCase& op, Tensor (*run)(const Tensor&), bool log_of_it) {
  const auto make = [=](const Shape& shape) {
    const double bytes = static_cast<double>(shape.numel()) * sizeof(float);
    return OpSample{.label = shape.text(),
                    .inputs = {normal("x", shape, 0, 2)},
                    .run = [run](const Tensors& in) { return run(in[0]); },
                    .reference = plain([log_of_it](const auto& in) { return reference(in[0], log_of_it); }),
                    .backward_reads_result = true,
                    .flops = 12.0 * static_cast<double>(shape.numel()),
                    .bytes = 2 * bytes,
                    .backward_bytes = 3 * bytes};
  };
  // A part of a vector, vectors and some more, rows for all threads; on CUDA whole vectors or none, a warp or a thread
  // block per row.
  for (const Shape& shape :
       {Shape{1}, Shape{5}, Shape{2, 3, 65}, Shape{70, 32}, Shape{2, 1027}, Shape{2, 1032}, Shape{0, 3}, Shape{3, 0}}) {
    op.sample(make(shape));
  }
  op.error<ShapeError>(
      "a scalar", [run] { run(full({}, DType::f32, 1.0)); }, op.name + ": x is a scalar");
  op.error<DTypeError>(
      "tokens", [run] { run(from_tokens({1}, {1})); }, op.name + ": x is i32");

  op.bench(make({768, 512}));
  op.bench(make({4096, 1024}));
  op.bench(make({16384, 1024}), Device::cuda);
  op.bench(make({16384, 4096}), Device::cuda);
}

}  // namespace

OP_CASE(softmax) { declare(op, softmax, false); }

OP_CASE(log_softmax) { declare(op, log_softmax, true); }
