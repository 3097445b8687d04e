#include "autograd/ops/attention/attention.hpp"

#include <cmath>
#include <limits>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/attention/attention_case.hpp"

using namespace heed;
using namespace heed::attention_case;

namespace {

OpSample sample(const Setting& s) {
  const double seen = s.causal ? 0.5 : 1.0;
  return {.label = s.label,
          .inputs = {normal("q", {s.batch, s.queries, s.heads * s.head_size}),
                     normal("k", {s.batch, s.keys, s.kv_heads * s.head_size}),
                     normal("v", {s.batch, s.keys, s.kv_heads * s.head_size})},
          .run = [s](const Tensors& in) { return attention(in[0], in[1], in[2], options(s, in[0].device())); },
          .reference = plain([s](const auto& in) { return reference(s, in); }),
          .check_gradients_by_differences = s.differences,
          .backward_reads_result = true,
          .rounds_between_products = s.head_size % 8 == 0,
          .cpu_rounds_between_products = s.head_size % 2 == 0,
          // With one key, dq and dk are the difference of two equal sums.
          .term_size = s.keys == 1 ? 1 : 1e-3,
          .flops = seen * 4.0 * static_cast<double>(s.batch * s.heads * s.queries * s.keys * s.head_size),
          .bytes = 2.0 * sizeof(float) * static_cast<double>(s.batch * s.head_size) *
                   static_cast<double>(s.queries * s.heads + s.keys * s.kv_heads)};
}

std::vector<int32_t> documents_of(int64_t length, int64_t positions) {
  std::vector<int32_t> tokens;
  for (int64_t t = 1; t <= positions; ++t) tokens.push_back(t % length == 0 ? 0 : 1);
  return tokens;
}

OpSample packed_sample(const Setting& s) {
  OpSample result = sample(s);
  result.inputs = {normal("qkv", {s.batch, s.keys, (s.heads + 2 * s.kv_heads) * s.head_size})};
  result.run = [s](const Tensors& in) { return attention_packed(in[0], options(s, in[0].device())); };
  return result;
}

Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); }

Setting bench_setting(int64_t batch, int64_t length, int64_t head_size) {
  return {.label = fmt::format("{} x {}, 12 heads of {}", batch, length, head_size),
          .batch = batch,
          .queries = length,
          .keys = length,
          .heads = 12,
          .kv_heads = 12,
          .head_size = head_size};
}

// 16 sequences of 128, about 256 columns whatever the head size: the same arithmetic in more or fewer heads.
Setting head_size_setting(int64_t head_size) {
  const int64_t heads = 256 / head_size;
  return {.label = fmt::format("16 x 128, {} heads of {}", heads, head_size),
          .batch = 16,
          .queries = 128,
          .keys = 128,
          .heads = heads,
          .kv_heads = heads,
          .head_size = head_size};
}

std::function<void()> with(const AttentionOptions& options, const Shape& q = {2, 4, 12}, const Shape& k = {2, 5, 12}) {
  return [=] { attention(ones(q), ones(k), ones(k), options); };
}

}  // namespace

OP_CASE(attention) {
  for (const Setting& s : std::vector<Setting>{
           {.label = "causal"},
           {.label = "full", .causal = false},
           {.label = "one of all", .batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_size = 1},
           {.label = "more keys", .queries = 3, .keys = 7},
           {.label = "more queries, the first see nothing", .queries = 7, .keys = 3},
           {.label = "other keys, full", .queries = 4, .keys = 9, .causal = false},
           {.label = "own scale", .scale = 0.25},
           {.label = "right padding", .batch = 3, .lengths = {5, 2, 0}},
           {.label = "left padding", .batch = 3, .lengths = {1, 0, 3}, .side = PaddingSide::left},
           {.label = "left padding, full",
           .batch = 3,
           .causal = false,
           .lengths = {4, 0, 5},
           .side = PaddingSide::left},
           {.label = "right padding of keys", .queries = 3, .keys = 7, .causal = false, .lengths = {0, 6}},
           {.label = "right padding, more keys", .queries = 3, .keys = 7, .lengths = {5, 6}},
           {.label = "left padding, more keys", .queries = 4, .keys = 6, .lengths = {3, 6}, .side = PaddingSide::left},
           {.label = "groups of 3", .heads = 6, .kv_heads = 2},
           {.label = "one kv head", .heads = 4, .kv_heads = 1},
           {.label = "dropout", .queries = 9, .keys = 9, .dropout = 0.3},
           {.label = "dropout, more keys, groups", .queries = 6, .keys = 11, .heads = 4, .dropout = 0.5},
           {.label = "dropout, left padding", .lengths = {5, 2}, .side = PaddingSide::left, .dropout = 0.25},
           {.label = "wide heads", .batch = 1, .queries = 18, .keys = 18, .head_size = 65},
           {.label = "wider heads",
           .batch = 1,
           .queries = 34,
           .keys = 34,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 101,
           .differences = false},
           {.label = "widest heads",
           .batch = 1,
           .queries = 9,
           .keys = 18,
           .head_size = 250,
           .dropout = 0.2,
           .differences = false},
           {.label = "several tiles", .batch = 1, .queries = 261, .keys = 261, .head_size = 5, .differences = false},
           {.label = "several tiles of keys", .batch = 1, .queries = 9, .keys = 1060, .causal = false},
           // Whose rows the CPU reads and writes where they are.
           {.label = "several tiles of keys, heads of 16, full",
           .batch = 1,
           .queries = 16,
           .keys = 1064,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 16,
           .causal = false,
           .differences = false},
           {.label = "several tiles of keys, heads of 16, causal, dropout",
           .batch = 1,
           .queries = 16,
           .keys = 1064,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 16,
           .dropout = 0.2,
           .differences = false},
           {.label = "several tiles, one kv head, left padding, dropout",
           .queries = 134,
           .keys = 270,
           .kv_heads = 1,
           .lengths = {131, 75},
           .side = PaddingSide::left,
           .dropout = 0.1,
           .differences = false},
           {.label = "window of 2", .window = 2},
           {.label = "window of 1", .head_size = 1, .window = 1},
           {.label = "window of 3, more keys", .queries = 3, .keys = 9, .window = 3},
           {.label = "window of 2, more queries", .queries = 7, .keys = 3, .window = 2},
           {.label = "window of 2, right padding, more keys: some queries see nothing",
           .queries = 6,
           .keys = 7,
           .lengths = {2, 5},
           .window = 2},
           {.label = "window of 3, left padding, dropout, groups",
           .queries = 9,
           .keys = 9,
           .heads = 4,
           .lengths = {4, 9},
           .side = PaddingSide::left,
           .dropout = 0.3,
           .window = 3},
           {.label = "window of 70, several tiles",
           .batch = 1,
           .queries = 261,
           .keys = 261,
           .heads = 1,
           .kv_heads = 1,
           .window = 70,
           .differences = false},
           {.label = "window of 600, several tiles of keys, heads of 16, dropout",
           .batch = 1,
           .queries = 30,
           .keys = 1064,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 16,
           .dropout = 0.2,
           .window = 600,
           .differences = false},
           {.label = "ALiBi, 6 heads, groups of 3", .heads = 6, .alibi = true},
           {.label = "ALiBi, more keys, window, dropout",
           .queries = 4,
           .keys = 9,
           .dropout = 0.3,
           .window = 4,
           .alibi = true},
           {.label = "documents", .tokens = {1, 1, 0, 1, 1, 0, 0, 1, 0, 1}},
           {.label = "documents, full, ALiBi is off", .causal = false, .tokens = {0, 1, 1, 0, 1, 1, 1, 1, 1, 1}},
           {.label = "documents, window, ALiBi, right padding, dropout",
           .lengths = {5, 3},
           .dropout = 0.3,
           .window = 2,
           .alibi = true,
           .tokens = {1, 1, 0, 1, 1, 1, 0, 1, 0, 1}},
           {.label = "documents, left padding",
           .lengths = {4, 2},
           .side = PaddingSide::left,
           .tokens = {1, 1, 0, 1, 1, 1, 0, 1, 0, 1}},
           {.label = "documents of 50, several tiles",
           .batch = 1,
           .queries = 261,
           .keys = 261,
           .heads = 1,
           .kv_heads = 1,
           .tokens = documents_of(50, 261),
           .differences = false},
           // Head sizes that tensor cores take, in bf16.
           {.label = "heads of 8, one of all", .batch = 1, .queries = 1, .keys = 1, .head_size = 8},
           {.label = "heads of 8, own scale below 0", .head_size = 8, .scale = -0.5},
           {.label = "heads of 24", .queries = 19, .keys = 19, .head_size = 24, .differences = false},
           {.label = "heads of 32, full",
           .queries = 9,
           .keys = 36,
           .head_size = 32,
           .causal = false,
           .differences = false},
           {.label = "heads of 64, groups of 2, dropout",
           .batch = 1,
           .queries = 35,
           .keys = 35,
           .kv_heads = 1,
           .head_size = 64,
           .dropout = 0.2,
           .differences = false},
           {.label = "heads of 64, left padding, more keys, dropout",
           .queries = 9,
           .keys = 40,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 64,
           .lengths = {17, 40},
           .side = PaddingSide::left,
           .dropout = 0.1,
           .differences = false},
           {.label = "heads of 64, window of 20, documents, ALiBi, dropout",
           .batch = 1,
           .queries = 140,
           .keys = 140,
           .kv_heads = 1,
           .head_size = 64,
           .dropout = 0.1,
           .window = 20,
           .alibi = true,
           .tokens = documents_of(33, 140),
           .differences = false},
           {.label = "heads of 8, ALiBi, own scale below 0", .head_size = 8, .scale = -0.5, .alibi = true},
           {.label = "heads of 128, window of 40, more keys",
           .batch = 1,
           .queries = 70,
           .keys = 140,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 128,
           .window = 40,
           .differences = false},
           {.label = "heads of 96, right padding",
           .queries = 17,
           .keys = 17,
           .heads = 1,
           .kv_heads = 1,
           .head_size = 96,
           .lengths = {16, 3},
           .differences = false},
           {.label = "heads of 128, more queries, dropout",
           .batch = 1,
           .queries = 20,
           .keys = 17,
           .head_size = 128,
           .dropout = 0.3,
           .differences = false},
       }) {
    op.sample(sample(s));
  }

  op.error<ShapeError>("q without heads", with({}, {2, 12}), "attention: q has shape (2, 12)");
  op.error<ShapeError>("width no multiple of heads", with({.num_heads = 5}), "for 5 heads");
  op.error<ShapeError>("k of another batch", with({.num_heads = 2}, {2, 4, 12}, {3, 4, 12}), "k has shape (3, 4, 12)");
  op.error<ShapeError>("k of all heads", with({.num_heads = 4, .num_kv_heads = 2}), "must be (2, T, 6)");
  op.error<ShapeError>(
      "v of another length",
      [] {
        attention(ones({2, 4, 12}), ones({2, 5, 12}), ones({2, 4, 12}), {});
      },
      "v has shape (2, 4, 12), it must be that of k, (2, 5, 12)");
  op.error<DTypeError>(
      "mixed dtypes",
      [] {
        attention(ones({2, 4, 12}), ones({2, 4, 12}, DType::f64), ones({2, 4, 12}), {});
      },
      "k is f64 but q is f32");
  op.error<DTypeError>(
      "tokens",
      [] {
        const Tensor x = from_tokens({1, 1, 1}, {1});
        attention(x, x, x, {});
      },
      "i32");
  op.error<ValueError>("no heads", with({.num_heads = 0}), "0 heads");
  op.error<ValueError>("kv heads that do not divide", with({.num_heads = 4, .num_kv_heads = 3}), "3 kv heads");
  op.error<ValueError>("negative kv heads", with({.num_heads = 4, .num_kv_heads = -4}), "-4 kv heads");
  op.error<ValueError>("negative window", with({.window = -1}), "window is -1, it must be at least 1, or 0 for none");
  op.error<ValueError>("window without a causal mask", with({.causal = false, .window = 2}), "a window needs a causal");
  op.error<ValueError>("ALiBi without a causal mask", with({.causal = false, .alibi = true}), "alibi needs a causal");
  const DocumentRanges documents = document_ranges(from_tokens({2, 5}, std::vector<int32_t>(10, 1)), 0);
  op.error<ShapeError>("documents of other positions", with({.documents = documents}, {2, 4, 12}, {2, 4, 12}),
                       "documents.begin has shape (2, 5), it must be (2, 4)");
  op.error<ShapeError>("documents with fewer queries", with({.documents = documents}), "not 4 and 5");
  op.error<ShapeError>("documents without an end", with({.documents = {documents.begin, {}}}, {2, 5, 12}, {2, 5, 12}),
                       "documents.end");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  op.error<ValueError>("scale NaN", with({.scale = nan}), "scale is nan");
  op.error<ValueError>("dropout above 1", with({.dropout = 1.1}), "dropout is 1.1, it must be 0 to 1");
  op.error<ValueError>("negative dropout", with({.dropout = -0.1}), "dropout is -0.1");
  op.error<ValueError>("dropout NaN", with({.dropout = nan}), "dropout is nan");
  op.error<ValueError>("negative first row", with({.first_row = -1}), "first_row is -1");
  op.error<ShapeError>("more weights than 63 bits count", with({.dropout = 0.1, .first_row = int64_t{1} << 60}),
                       "63 bits");
  op.error<DTypeError>("lengths f32", with({.lengths = ones({2})}), "lengths are f32");
  op.error<ShapeError>("too few lengths", with({.lengths = from_tokens({1}, {1})}), "lengths have shape (1)");
  op.error<ValueError>("length too large", with({.lengths = from_tokens({2}, {5, 6})}), "lengths[1] is 6");
  op.error<ValueError>("negative length", with({.lengths = from_tokens({2}, {-1, 5})}), "lengths[0] is -1");

  op.bench(sample({.label = "12 x 64, 4 heads of 32",
                   .batch = 12,
                   .queries = 64,
                   .keys = 64,
                   .heads = 4,
                   .kv_heads = 4,
                   .head_size = 32}));
  for (const int64_t length : {256, 1024, 4096}) op.bench(sample(bench_setting(1, length, 64)));
  for (const int64_t head_size : {4, 8, 16, 20, 32, 64, 128}) op.bench(sample(head_size_setting(head_size)));
  // 16384 tokens each.
  for (const int64_t head_size : {64, 128}) {
    for (int64_t length = 256; length <= 8192; length *= 2) {
      op.bench(sample(bench_setting(16384 / length, length, head_size)), Device::cuda);
    }
  }
  for (const int64_t head_size : {32, 96, 256}) op.bench(sample(bench_setting(16, 1024, head_size)), Device::cuda);
}

OP_CASE(attention_packed) {
  for (const Setting& s : std::vector<Setting>{
           {.label = "causal"},
           {.label = "full, groups of 2", .heads = 4, .causal = false},
           {.label = "right padding, one kv head", .heads = 3, .kv_heads = 1, .lengths = {4, 1}},
           {.label = "left padding, dropout", .lengths = {3, 5}, .side = PaddingSide::left, .dropout = 0.4},
           {.label = "several tiles", .batch = 1, .queries = 131, .keys = 131, .head_size = 17, .differences = false},
           {.label = "heads of 40, groups of 2",
           .batch = 1,
           .queries = 34,
           .keys = 34,
           .heads = 4,
           .head_size = 40,
           .differences = false},
       }) {
    op.sample(packed_sample(s));
  }
  op.error<ShapeError>(
      "width",
      [] {
        attention_packed(ones({2, 4, 12}), {.num_heads = 4, .num_kv_heads = 2});
      },
      "qkv has shape (2, 4, 12), for 4 heads and 2 kv heads it must be (B, T, 8 * head size)");
  op.error<DTypeError>(
      "tokens",
      [] {
        attention_packed(from_tokens({1, 1, 3}, {1, 2, 3}), {});
      },
      "i32");
  Setting baby{.label = "64 x 256, 6 heads of 64",
               .batch = 64,
               .queries = 256,
               .keys = 256,
               .heads = 6,
               .kv_heads = 6,
               .head_size = 64};
  op.bench(packed_sample(baby));
  op.bench(packed_sample(baby), Device::cuda);
  baby.label += ", dropout 0.2";
  baby.dropout = 0.2;
  op.bench(packed_sample(baby), Device::cuda);
  op.bench(packed_sample(bench_setting(16, 1024, 64)), Device::cuda);
}
