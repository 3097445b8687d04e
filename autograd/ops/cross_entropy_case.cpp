#include "autograd/ops/cross_entropy.hpp"

#include <limits>

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in, const CrossEntropyOptions& options) {
  using std::exp;
  using std::log;
  const int64_t columns = in[0].shape.columns(), vocab = options.vocab > 0 ? options.vocab : columns;
  S loss = 0;
  int64_t counted = 0;
  for (size_t row = 0; row < in[1].tokens.size(); ++row) {
    const int32_t target = in[1].tokens[row];
    if (target == options.ignore_index) continue;
    const S* x = &in[0].values[row * static_cast<size_t>(columns)];
    S max = x[0], sum = 0;
    for (int64_t j = 1; j < vocab; ++j) max = x[j] > max ? x[j] : max;
    for (int64_t j = 0; j < vocab; ++j) sum += exp(x[j] - max);
    loss += log(sum) + (max - x[target]);
    ++counted;
  }
  const double given = options.denominator.get();
  return {loss / S(given > 0 ? given : static_cast<double>(counted))};
}

OpSample sample(const Shape& logits, int32_t limit, const CrossEntropyOptions& options = {}) {
  Shape targets;  // the shape of logits without its last dimension
  for (int i = 0; i + 1 < logits.rank(); ++i) targets = targets.with_appended(logits[i]);
  return {.label = fmt::format("{} ignore {} denominator {} vocab {}", logits, options.ignore_index,
                               options.denominator.get(), options.vocab),
          .inputs = {normal("logits", logits, 0, 3), tokens("targets", targets, limit)},
          .run = [options](const Tensors& in) { return cross_entropy(in[0], in[1], options); },
          .reference = plain([options](const auto& in) { return reference(in, options); }),
          .bytes = static_cast<double>(logits.numel()) * sizeof(float)};
}

Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); }

}  // namespace

OP_CASE(cross_entropy) {
  op.sample(sample({1}, 1));
  op.sample(sample({5}, 5));
  op.sample(sample({2, 3, 65}, 65));
  op.sample(sample({70, 7}, 7));
  op.sample(sample({3, 1031}, 1031));
  op.sample(sample({2, 3003}, 3003));
  op.sample(sample({3, 2176}, 2101, {.vocab = 2101}));
  op.sample(sample({9, 4}, 4, {.ignore_index = 2}));
  op.sample(sample({9, 4}, 4, {.denominator = 20}));
  op.sample(sample({2, 5, 40}, 33, {.ignore_index = 3, .denominator = 64, .vocab = 33}));

  const auto run = [](const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {}) {
    cross_entropy(logits, targets, options);
  };
  const Tensor two = from_tokens({2}, {0, 2});
  op.error<ValueError>(
      "target too large",
      [=] {
        run(ones({2, 2, 3}), from_tokens({2, 2}, {0, -1, 3, 2}));
      },
      "cross_entropy: target 3 at position (1, 0), it must be from 0 to 2 (a vocabulary of 3) or -1 (ignored)");
  op.error<ValueError>(
      "negative target",
      [=] {
        run(ones({2, 3}), from_tokens({2}, {0, -2}));
      },
      "target -2");
  op.error<ValueError>(
      "a padded column",
      [=] {
        run(ones({2, 3}), two, {.vocab = 2});
      },
      "target 2 at position (1)");
  op.error<ValueError>(
      "vocab",
      [=] {
        run(ones({2, 3}), two, {.vocab = 4});
      },
      "vocab is 4");
  op.error<ValueError>(
      "vocab below 0",
      [=] {
        run(ones({2, 3}), two, {.vocab = -1});
      },
      "vocab is -1");
  op.error<ValueError>(
      "denominator",
      [=] {
        run(ones({2, 3}), two, {.denominator = -1});
      },
      "denominator is -1");
  op.error<ValueError>(
      "denominator NaN",
      [=] {
        run(ones({2, 3}), two, {.denominator = std::numeric_limits<double>::quiet_NaN()});
      },
      "denominator is nan");
  op.error<ShapeError>(
      "targets",
      [=] {
        run(ones({3, 3}), two);
      },
      "targets have shape (2)");
  op.error<ShapeError>(
      "targets of other rank",
      [=] {
        run(ones({1, 2, 3}), two);
      },
      "targets have shape (2)");
  op.error<ShapeError>(
      "no columns",
      [=] {
        run(ones({2, 0}), two);
      },
      "logits have shape (2, 0)");
  op.error<ShapeError>(
      "a scalar", [=] { run(ones({}), two); }, "logits have shape ()");
  op.error<DTypeError>(
      "targets",
      [=] {
        run(ones({2, 3}), ones({2}));
      },
      "targets are f32");
  op.error<DTypeError>(
      "logits",
      [=] {
        run(from_tokens({1, 1}, {0}), from_tokens({1}, {0}));
      },
      "logits are i32");

  op.bench(sample({768, 65}, 65));
  op.bench(sample({4096, 32}, 32));
  op.bench(sample({16384, 65}, 65), Device::cuda);
  op.bench(sample({8192, 50304}, 50304), Device::cuda);
}
