#include "autograd/ops/linear_cross_entropy.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in, const LinearCrossEntropyOptions& options) {
  using std::exp;
  using std::log;
  using std::tanh;
  const int64_t width = in[1].shape[1], columns = in[1].shape[0];
  const int64_t vocab = options.cross_entropy.vocab > 0 ? options.cross_entropy.vocab : columns;
  const S cap = S(options.softcap);
  S loss = 0;
  int64_t counted = 0;
  for (size_t row = 0; row < in[2].tokens.size(); ++row) {
    const int32_t target = in[2].tokens[row];
    if (target == options.cross_entropy.ignore_index) continue;
    std::vector<S> logits;
    for (int64_t j = 0; j < vocab; ++j) {
      S sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += in[0][static_cast<int64_t>(row) * width + i] * in[1][j * width + i];
      logits.push_back(options.softcap > 0 ? cap * tanh(sum / cap) : sum);
    }
    S max = logits[0], sum = 0;
    for (const S& x : logits) max = x > max ? x : max;
    for (const S& x : logits) sum += exp(x - max);
    loss += log(sum) + (max - logits[static_cast<size_t>(target)]);
    ++counted;
  }
  const double given = options.cross_entropy.denominator.get();
  return {loss / S(given > 0 ? given : static_cast<double>(counted))};
}

// The targets have the shape of x without its last dimension.
OpSample sample(const Shape& x, int64_t columns, int32_t limit, const LinearCrossEntropyOptions& options = {}) {
  Shape targets;
  for (int i = 0; i + 1 < x.rank(); ++i) targets = targets.with_appended(x[i]);
  const CrossEntropyOptions& c = options.cross_entropy;
  const auto rows = static_cast<double>(x.rows()), width = static_cast<double>(x.columns());
  const auto outputs = static_cast<double>(columns);
  return {.label = fmt::format("{} to {} softcap {} ignore {} denominator {} vocab {} chunk {}", x, columns,
                               options.softcap, c.ignore_index, c.denominator.get(), c.vocab, options.chunk_bytes),
          .inputs = {normal("x", x), normal("weight", {columns, x.columns()}), tokens("targets", targets, limit)},
          .run = [options](const Tensors& in) { return linear_cross_entropy(in[0], in[1], in[2], options); },
          .reference = plain([options](const auto& in) { return reference(in, options); }),
          .backward_reads_result = true,  // the logits
          .rounds_between_products = true,
          .flops = 2 * rows * width * outputs,
          .bytes = 4 * (rows * width + width * outputs),
          .backward_flops = 6 * rows * width * outputs,
          .backward_parameter_bytes = 4 * width * outputs};
}

Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); }

}  // namespace

OP_CASE(linear_cross_entropy) {
  op.sample(sample({3}, 5, 5));
  op.sample(sample({2, 3, 5}, 65, 65));
  op.sample(sample({33, 16}, 9, 9, {.softcap = 3}));
  // Several chunks, the last one of fewer rows, in each dtype.
  op.sample(sample({37, 6}, 24, 24, {.chunk_bytes = 4 * 8 * 24}));
  op.sample(sample({2, 7, 5}, 33, 33, {.softcap = 2, .chunk_bytes = 4 * 8 * 33}));
  op.sample(sample({19, 3}, 4, 4, {.cross_entropy = {.ignore_index = 2}, .chunk_bytes = 1}));
  op.sample(sample({2, 5, 7}, 40, 33,
                   {.cross_entropy = {.ignore_index = 3, .denominator = 64, .vocab = 33}, .chunk_bytes = 1000}));

  const auto run = [](const Tensor& x, const Tensor& weight, const Tensor& targets,
                      const LinearCrossEntropyOptions& options = {}) {
    linear_cross_entropy(x, weight, targets, options);
  };
  const Tensor two = from_tokens({2}, {0, 2});
  op.error<ShapeError>(
      "width",
      [=] {
        run(ones({2, 8}), ones({3, 7}), two);
      },
      "linear_cross_entropy: weight has shape (3, 7), for x (2, 8) it must be (N, 8)");
  op.error<ShapeError>(
      "targets",
      [=] {
        run(ones({3, 8}), ones({3, 8}), two);
      },
      "linear_cross_entropy: targets have shape (2), it must be that of logits (3, 3) without the last dimension");
  op.error<DTypeError>(
      "targets",
      [=] {
        run(ones({2, 8}), ones({3, 8}), ones({2}));
      },
      "targets are f32");
  op.error<DTypeError>(
      "dtypes",
      [=] {
        run(ones({2, 8}), ones({3, 8}, DType::f64), two);
      },
      "weight is f64");
  op.error<ValueError>(
      "target too large, in the second chunk",
      [=] {
        run(ones({2, 2, 8}), ones({3, 8}), from_tokens({2, 2}, {0, -1, 3, 2}), {.chunk_bytes = 24});
      },
      "cross_entropy: target 3 at position (1, 0), it must be from 0 to 2 (a vocabulary of 3) or -1 (ignored)");
  op.error<ValueError>(
      "vocab",
      [=] {
        run(ones({2, 8}), ones({3, 8}), two, {.cross_entropy = {.vocab = 4}});
      },
      "vocab is 4");
  op.error<ValueError>(
      "softcap",
      [=] {
        run(ones({2, 8}), ones({3, 8}), two, {.softcap = -1});
      },
      "softcap is -1");
  op.error<ShapeError>(
      "losses",
      [=] {
        run(ones({2, 8}), ones({3, 8}), two, {.losses = ones({3}, DType::f64)});
      },
      "losses have shape (3), it must be that of targets (2)");
  op.error<DTypeError>(
      "losses",
      [=] {
        run(ones({2, 8}), ones({3, 8}), two, {.losses = ones({2})});
      },
      "losses are f32");

  op.bench(sample({768, 128}, 65, 65));
  op.bench(sample({256, 768}, 50304, 50304));
  op.bench(sample({16384, 768}, 50304, 50304), Device::cuda);
}
