#include "autograd/ops/dropout.hpp"

#include <limits>

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

const RandomStream kRandom{.seed = 3, .site = random_site(RandomDomain::dropout, 1, 2), .step = 5};
constexpr int64_t kFirstRow = 7;  // keeps the element of the scalar, in which a NaN has to show

struct Setting {
  Shape shape;
  double p;
};
// Widths that are and are not a multiple of 8, and one longer than the random words that are made at a time.
const Setting kSettings[] = {{{}, 0.25},      {{7}, 0.5},        {{5, 1}, 0.5},    {{2, 3, 65}, 0.1},
                             {{6, 128}, 0.2}, {{2, 2051}, 0.75}, {{3, 4, 36}, 0.5}};

template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in, double p) {
  const int64_t columns = in[0].shape.columns(), padded = round_up(columns, 8);
  std::vector<S> y;
  for (int64_t i = 0; i < in[0].shape.numel(); ++i) {
    const int64_t index = (kFirstRow + i / columns) * padded + i % columns;
    const bool keep = kRandom.half(static_cast<uint64_t>(index)) >= dropout_threshold(p);
    const S dropped = keep ? in[0][i] * S(1 / (1 - dropout_rate(p))) : S(0);
    y.push_back(in.size() > 1 ? in[1][i] + dropped : dropped);
  }
  return y;
}

OpSample sample(const Shape& shape, double p) {
  return {.label = fmt::format("{} p {}", shape, p),
          .inputs = {normal("x", shape)},
          .run = [p](const Tensors& in) { return dropout(in[0], p, kRandom, kFirstRow); },
          .reference = plain([p](const auto& in) { return reference(in, p); }),
          .bytes = 2.0 * static_cast<double>(shape.numel()) * sizeof(float),
          .backward_bytes = 2.0 * static_cast<double>(shape.numel()) * sizeof(float)};
}

OpSample sample_with_residual(const Shape& shape, double p) {
  OpSample result = sample(shape, p);
  result.inputs.push_back(normal("residual", shape));
  result.run = [p](const Tensors& in) { return dropout_add(in[0], in[1], p, kRandom, kFirstRow); };
  result.backward_bytes *= 2;  // a leaf gets a copy of the gradient
  result.bytes = 3.0 * static_cast<double>(shape.numel()) * sizeof(float);
  return result;
}

Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); }

void declare_errors(OpCase& op, const std::function<Tensor(const Tensor& x, double p, int64_t first_row)>& run) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  op.error<ValueError>(
      "p above 1", [=] { run(ones({4}), 1.1, 0); }, "p is 1.1, it must be between 0 and 1");
  op.error<ValueError>(
      "p below 0", [=] { run(ones({4}), -0.1, 0); }, "p is -0.1");
  op.error<ValueError>(
      "p NaN", [=] { run(ones({4}), nan, 0); }, "p is nan");
  op.error<ValueError>(
      "negative row", [=] { run(ones({4}), 0.5, -4); }, "first_row is -4");
  op.error<DTypeError>(
      "tokens", [=] { run(from_tokens({1}, {1}), 0.5, 0); }, op.name + ": x is i32");
}

}  // namespace

OP_CASE(dropout) {
  for (const Setting& s : kSettings) op.sample(sample(s.shape, s.p));
  declare_errors(op, [](const Tensor& x, double p, int64_t first_row) { return dropout(x, p, kRandom, first_row); });
  op.bench(sample({768, 128}, 0.1));
  op.bench(sample({768, 65}, 0.1));
  op.bench(sample({16384, 768}, 0.1), Device::cuda);
}

OP_CASE(dropout_add) {
  for (const Setting& s : kSettings) op.sample(sample_with_residual(s.shape, s.p));
  declare_errors(op,
                 [](const Tensor& x, double p, int64_t first_row) { return dropout_add(x, x, p, kRandom, first_row); });
  op.error<ShapeError>(
      "residual shape",
      [] {
        dropout_add(ones({2, 4}), ones({4, 2}), 0.5, kRandom, 0);
      },
      "residual has shape (4, 2)");
  op.error<DTypeError>(
      "residual dtype", [] { dropout_add(ones({4}), ones({4}, DType::f64), 0.5, kRandom, 0); }, "residual is f64");
  op.bench(sample_with_residual({768, 128}, 0.1));
  op.bench(sample_with_residual({16384, 768}, 0.1), Device::cuda);
}
