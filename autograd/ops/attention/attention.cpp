#include "autograd/ops/attention/attention.hpp"

#include <cmath>
#include <limits>

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

int64_t kv_heads(const AttentionOptions& options) {
  return options.num_kv_heads == 0 ? options.num_heads : options.num_kv_heads;
}

ConstTensorRef ref_of(const Tensor& tensor) { return tensor ? tensor.ref() : ConstTensorRef(); }

void check_heads(const char* op, const AttentionOptions& options) {
  require<ValueError>(options.num_heads >= 1, "{}: {} heads, there must be at least 1", op, options.num_heads);
  require<ValueError>(kv_heads(options) >= 1 && options.num_heads % kv_heads(options) == 0,
                      "{}: {} kv heads do not divide {} heads", op, options.num_kv_heads, options.num_heads);
}

void check_lengths(const char* op, const AttentionOptions& options, const AttentionProblem& problem) {
  const Tensor& lengths = options.lengths;
  if (!lengths) return;
  require<DTypeError>(lengths.dtype() == DType::i32, "{}: lengths are {}, they must be i32", op, lengths.dtype());
  require<ShapeError>(lengths.shape() == Shape{problem.batch},
                      "{}: lengths have shape {}, for {} sequences it must be ({})", op, lengths.shape(), problem.batch,
                      problem.batch);
  const std::vector<double> values = lengths.values();
  for (int64_t b = 0; b < problem.batch; ++b) {
    const auto length = static_cast<int64_t>(values[static_cast<size_t>(b)]);
    require<ValueError>(length >= 0 && length <= problem.keys, "{}: lengths[{}] is {}, it must be 0 to {}", op, b,
                        length, problem.keys);
  }
}

void check_mask(const char* op, const AttentionOptions& options, const AttentionProblem& problem) {
  require<ValueError>(options.window >= 0, "{}: window is {}, it must be at least 1, or 0 for none", op,
                      options.window);
  require<ValueError>(options.causal || (options.window == 0 && !options.alibi),
                      "{}: {} needs a causal mask: set causal", op, options.window > 0 ? "a window" : "alibi");
  const DocumentRanges& documents = options.documents;
  if (!documents.begin && !documents.end) return;
  for (const auto& [name, tensor] : {std::pair("begin", documents.begin), std::pair("end", documents.end)}) {
    require<ShapeError>(tensor && tensor.shape() == Shape{problem.batch, problem.keys},
                        "{}: documents.{} has shape {}, it must be ({}, {})", op, name,
                        tensor ? tensor.shape() : Shape{0}, problem.batch, problem.keys);
    require<DTypeError>(tensor.dtype() == DType::i32, "{}: documents.{} is {}, it must be i32", op, name,
                        tensor.dtype());
  }
  require<ShapeError>(problem.queries == problem.keys,
                      "{}: with documents, queries and keys must be the same positions, not {} and {}", op,
                      problem.queries, problem.keys);
}

void check_dropout(const char* op, const AttentionOptions& options, const AttentionProblem& problem) {
  require<ValueError>(options.dropout >= 0 && options.dropout <= 1, "{}: dropout is {}, it must be 0 to 1", op,
                      options.dropout);
  require<ValueError>(
      options.first_row >= 0 && options.first_row <= std::numeric_limits<int64_t>::max() - problem.batch,
      "{}: first_row is {}, it must not be negative, nor so large that rows cannot be counted", op, options.first_row);
  if (options.dropout == 0) return;
  // Every attention probability has its own half of a random word, so their number must fit in int64_t.
  const int64_t rows = checked_multiply(options.first_row + problem.batch, problem.heads);
  checked_multiply(checked_multiply(rows, problem.queries), round_up(problem.keys, 8));
}

// Tensors that an AttentionProblem refers to, which backward keeps alive.
struct MaskTensors {
  Tensor lengths;
  DocumentRanges documents;
};

// The problem of q (batch, queries, heads * head_size) with its k and v. Checks dtype, scale, lengths and dropout.
AttentionProblem make_problem(const char* op, const AttentionOptions& options, DType dtype, int64_t batch,
                              int64_t queries, int64_t keys, int64_t head_size) {
  require<DTypeError>(is_floating(dtype), "{}: the input is {}, it must be f32, bf16 or f64", op, dtype);
  require<ValueError>(std::isfinite(options.scale), "{}: scale is {}, it must be finite", op, options.scale);
  const double scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(head_size)) : options.scale;
  const AttentionProblem problem{.dtype = dtype,
                                 .batch = batch,
                                 .queries = queries,
                                 .keys = keys,
                                 .heads = options.num_heads,
                                 .kv_heads = kv_heads(options),
                                 .head_size = head_size,
                                 .causal = options.causal,
                                 .scale = scale,
                                 .lengths = ref_of(options.lengths),
                                 .side = options.side,
                                 .window = options.window,
                                 .alibi = options.alibi,
                                 .document_begin = ref_of(options.documents.begin),
                                 .document_end = ref_of(options.documents.end),
                                 .dropout = options.dropout,
                                 .random = options.random,
                                 .first_row = options.first_row};
  check_lengths(op, options, problem);
  check_mask(op, options, problem);
  check_dropout(op, options, problem);
  return problem;
}

AttentionProblem check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  check_heads("attention", options);
  require<ShapeError>(q.rank() == 3 && q.shape().columns() > 0 && q.shape().columns() % options.num_heads == 0,
                      "attention: q has shape {}, for {} heads it must be (B, T, {} * head size)", q.shape(),
                      options.num_heads, options.num_heads);
  const int64_t head_size = q.shape().columns() / options.num_heads;
  require<ShapeError>(
      k.rank() == 3 && k.shape()[0] == q.shape()[0] && k.shape().columns() == kv_heads(options) * head_size,
      "attention: k has shape {}, for q {} and {} kv heads it must be ({}, T, {})", k.shape(), q.shape(),
      kv_heads(options), q.shape()[0], kv_heads(options) * head_size);
  require<ShapeError>(v.shape() == k.shape(), "attention: v has shape {}, it must be that of k, {}", v.shape(),
                      k.shape());
  for (const Tensor* other : {&k, &v}) {
    require<DTypeError>(other->dtype() == q.dtype(), "attention: {} is {} but q is {}", other == &k ? "k" : "v",
                        other->dtype(), q.dtype());
  }
  require_one_device("attention", {{"q", q},
                                   {"k", k},
                                   {"v", v},
                                   {"lengths", options.lengths},
                                   {"documents.begin", options.documents.begin},
                                   {"documents.end", options.documents.end}});
  require<ShapeError>(options.num_keys >= 0 && options.num_keys <= k.shape()[1],
                      "attention: num_keys is {}, for k {} it must be 0 to {}", options.num_keys, k.shape(),
                      k.shape()[1]);
  require<GraphError>(options.num_keys == 0 || !grad_enabled(),
                      "attention: num_keys is for a KV cache, which has no gradient: use it under NoGradGuard");
  const int64_t keys = options.num_keys == 0 ? k.shape()[1] : options.num_keys;
  return make_problem("attention", options, q.dtype(), q.shape()[0], q.shape()[1], keys, head_size);
}

AttentionProblem check(const Tensor& qkv, const AttentionOptions& options) {
  check_heads("attention_packed", options);
  require<ValueError>(options.num_keys == 0, "attention_packed: num_keys is {}, it is for attention() only",
                      options.num_keys);
  const int64_t heads = options.num_heads + 2 * kv_heads(options);
  require<ShapeError>(qkv.rank() == 3 && qkv.shape().columns() > 0 && qkv.shape().columns() % heads == 0,
                      "attention_packed: qkv has shape {}, for {} heads and {} kv heads it must be (B, T, {} * head "
                      "size)",
                      qkv.shape(), options.num_heads, kv_heads(options), heads);
  require_one_device("attention_packed", {{"qkv", qkv},
                                          {"lengths", options.lengths},
                                          {"documents.begin", options.documents.begin},
                                          {"documents.end", options.documents.end}});
  return make_problem("attention_packed", options, qkv.dtype(), qkv.shape()[0], qkv.shape()[1], qkv.shape()[1],
                      qkv.shape().columns() / heads);
}

// View of the heads from `first_head` on in a tensor (B, T, columns); no data if ref is empty.
template <class Heads, class Ref>
Heads heads_in(const Ref& ref, const AttentionProblem& problem, int64_t first_head = 0) {
  Heads heads;
  if (!ref) return heads;
  const int64_t columns = ref.shape.columns(), rows = ref.shape[1];
  using Byte = std::conditional_t<std::is_same_v<Heads, ConstHeads>, const char, char>;
  heads.data = static_cast<Byte*>(ref.data) + first_head * problem.head_size * size_bytes(problem.dtype);
  heads.batch_stride = rows * columns;
  heads.row_stride = columns;
  heads.head_stride = problem.head_size;
  return heads;
}

ConstHeads input(const ConstTensorRef& ref, const AttentionProblem& problem, int64_t first_head = 0) {
  return heads_in<ConstHeads>(ref, problem, first_head);
}

GradientHeads gradient(const GradientSink& sink, const AttentionProblem& problem, int64_t first_head = 0) {
  GradientHeads heads = heads_in<GradientHeads>(sink.ref, problem, first_head);
  heads.add = sink.add;
  return heads;
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const AttentionProblem problem = check(q, k, v, options);
  Output y(q.shape(), q.dtype(), q.device());
  const Tensor lse = empty({problem.batch, problem.heads, problem.queries}, accumulation_dtype(q.dtype()), q.device());
  HEED_DISPATCH(q.device(), attention_forward,
                {.problem = problem,
                 .y = heads_in<HeadsOf<void>>(y.ref(), problem),
                 .lse = lse.ref(),
                 .q = input(q, problem),
                 .k = input(k, problem),
                 .v = input(v, problem)});
  const Tensor saved_y = y.saved();
  return record("attention", std::move(y), {q, k, v},
                [q, k, v, problem, lse, saved_y, mask_tensors = MaskTensors{options.lengths, options.documents}](
                    const Tensor& dy, Gradients& gradients) {
                  HEED_DISPATCH(q.device(), attention_backward,
                                {.problem = problem,
                                 .dq = gradient(gradients.sink(0), problem),
                                 .dk = gradient(gradients.sink(1), problem),
                                 .dv = gradient(gradients.sink(2), problem),
                                 .dy = input(dy, problem),
                                 .y = input(saved_y, problem),
                                 .q = input(q, problem),
                                 .k = input(k, problem),
                                 .v = input(v, problem),
                                 .lse = lse});
                });
}

Tensor attention_packed(const Tensor& qkv, const AttentionOptions& options) {
  const AttentionProblem problem = check(qkv, options);
  const int64_t first_k = problem.heads, first_v = first_k + problem.kv_heads;
  Output y({problem.batch, problem.queries, problem.heads * problem.head_size}, qkv.dtype(), qkv.device());
  const Tensor lse =
      empty({problem.batch, problem.heads, problem.queries}, accumulation_dtype(qkv.dtype()), qkv.device());
  HEED_DISPATCH(qkv.device(), attention_forward,
                {.problem = problem,
                 .y = heads_in<HeadsOf<void>>(y.ref(), problem),
                 .lse = lse.ref(),
                 .q = input(qkv, problem),
                 .k = input(qkv, problem, first_k),
                 .v = input(qkv, problem, first_v)});
  const Tensor saved_y = y.saved();
  return record(
      "attention_packed", std::move(y), {qkv},
      [=, mask_tensors = MaskTensors{options.lengths, options.documents}](const Tensor& dy, Gradients& gradients) {
        const GradientSink dqkv = gradients.sink(0);
        HEED_DISPATCH(qkv.device(), attention_backward,
                      {.problem = problem,
                       .dq = gradient(dqkv, problem),
                       .dk = gradient(dqkv, problem, first_k),
                       .dv = gradient(dqkv, problem, first_v),
                       .dy = input(dy, problem),
                       .y = input(saved_y, problem),
                       .q = input(qkv, problem),
                       .k = input(qkv, problem, first_k),
                       .v = input(qkv, problem, first_v),
                       .lse = lse});
      });
}

}  // namespace heed
