// Attention backward on the CPU. Recomputes the attention probabilities P = exp(scores - lse), and
//   dV = P^T dY    dS = P * (dY V^T - rowsum(dY * Y))    dK = scale dS^T Q    dQ = scale dS K
// A task is one kv head of one sequence: it packs all keys and values once, loops over the query heads of the group and
// their query tiles, and for each over the key tiles. Within a pair of tiles, a column panel of the B operand stays in
// L1 for all row groups (kMR rows) of the A operand; dK and dV are accumulated in scratch memory. If there are too
// few kv heads for the threads, (dK, dV) and dQ are separate tasks on subsets of the tiles, at 7 GEMMs instead of 5.
// Each element is summed in the same order either way, so the bits do not depend on the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/attention/cpu/backward_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/gemm/micro_kernel.hpp"
#include "autograd/ops/attention/cpu/dropout.hpp"
#include "autograd/ops/attention/cpu/operands.hpp"
#include "autograd/ops/attention/cpu/plan.hpp"
#include "autograd/ops/attention/cpu/softmax.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class Operands>
class BackwardTask {
 public:
  using S = typename Operands::Storage;  // of q, k, v, y and their gradients
  using T = AccumT<S>;
  using Element = typename Operands::Element;

  BackwardTask(const AttentionBackward& p, const AttentionTask& task, T* scratch)
      : p_(p),
        task_(task),
        visible_(visibility(p.problem, task.batch)),
        head_size_(p.problem.head_size),
        row_size_(padded<T>(head_size_)),
        dropout_(p.problem),
        wants_dq_(task.dq && p.dq),
        wants_dk_(task.dkv && p.dk),
        wants_dv_(task.dkv && p.dv) {
    const BackwardLayout<T> layout(p.problem);
    const auto elements = [&](int64_t offset) { return reinterpret_cast<Element*>(scratch + offset); };
    key_panels_ = elements(layout.key_panels);
    value_panels_ = elements(layout.value_panels);
    key_rows_ = elements(layout.keys);
    dk_ = scratch + layout.dk;
    dv_ = scratch + layout.dv;
    own_queries_ = elements(layout.queries);
    own_dy_ = elements(layout.dy);
    query_pairs_ = elements(layout.query_pairs);
    dy_pairs_ = elements(layout.dy_pairs);
    dq_ = scratch + layout.dq;
    lse_ = scratch + layout.lse;
    deltas_ = scratch + layout.deltas;
    weights_ = elements(layout.weights);
    dscores_ = elements(layout.dscores);
    dscore_rows_ = kPairs ? elements(layout.dscores) + kTileQueries / 2 * kBackwardKeys : dscores_;
  }

  void run() {
    clear_masked();
    if (visible_.first_query == visible_.end_query || !(wants_dq_ || wants_dk_ || wants_dv_)) return;
    const int64_t group = group_size(p_.problem);
    for_each_key_tile({0, visible_.keys}, [&] { pack_keys(); });
    for (head_ = task_.kv_head * group; head_ < (task_.kv_head + 1) * group; ++head_) {
      slope_ = slope_log2<T>(p_.problem, head_);
      for (int64_t tile = task_.query_tiles.first; tile < query_tiles(visible_); tile += task_.query_tiles.step) {
        query_ = visible_.first_query + tile * kTileQueries;
        rows_ = std::min(kTileQueries, visible_.end_query - query_);
        query_tile();
      }
    }
    for_each_key_tile({0, visible_.keys}, [&] { store_dkv(); });
  }

 private:
  using D = hn::ScalableTag<T>;
  static constexpr bool kPairs = Operands::kSize == 2;

  // Calls body() with key_ and keys_ set, for each key tile of this task with some of these keys.
  template <class Body>
  void for_each_key_tile(PositionRange<int64_t> keys, const Body& body) {
    const auto [first, step] = task_.key_tiles;
    const int64_t before = std::max<int64_t>(0, ceil_divide(keys.begin / kBackwardKeys - first, step));
    for (key_ = (first + before * step) * kBackwardKeys; key_ < keys.end; key_ += step * kBackwardKeys) {
      keys_ = std::min(kBackwardKeys, visible_.keys - key_);
      body();
    }
  }

  // Offset of the row of `key` in packed matrices of all keys, in T or, for operands, in Element.
  int64_t row_at(int64_t key) const { return key * row_size_; }
  int64_t operand_at(int64_t key) const { return key * row_size_ / Operands::kSize; }

  void pack_keys() {
    const int64_t batch = task_.batch, kv_head = task_.kv_head, first = visible_.first_key + key_;
    const S* k = p_.k.row<S>(batch, first, kv_head);
    score_factor_ =
        Operands::pack_right_columns(k, p_.k.row_stride, keys_, head_size_, static_cast<T>(p_.problem.scale * kLog2E),
                                     key_panels_ + operand_at(key_));
    dweight_factor_ =
        Operands::pack_right_columns(p_.v.row<S>(batch, first, kv_head), p_.v.row_stride, keys_, head_size_,
                                     static_cast<T>(keep_scale(p_.problem)), value_panels_ + operand_at(key_));
    if (wants_dq_) Operands::pack_right_rows(k, p_.k.row_stride, keys_, head_size_, key_rows_ + operand_at(key_));
    if (wants_dk_) std::fill_n(dk_ + row_at(key_), kBackwardKeys * row_size_, T(0));
    if (wants_dv_) std::fill_n(dv_ + row_at(key_), kBackwardKeys * row_size_, T(0));
  }

  void store_dkv() {
    const int64_t batch = task_.batch, kv_head = task_.kv_head, first = visible_.first_key + key_;
    if (wants_dk_) {
      unpack_rows(dk_ + row_at(key_), keys_, head_size_, static_cast<T>(p_.problem.scale), p_.dk.add,
                  p_.dk.row<S>(batch, first, kv_head), p_.dk.row_stride);
    }
    if (wants_dv_) {
      unpack_rows(dv_ + row_at(key_), keys_, head_size_, static_cast<T>(keep_scale(p_.problem)), p_.dv.add,
                  p_.dv.row<S>(batch, first, kv_head), p_.dv.row_stride);
    }
  }

  void query_tile() {
    const int64_t padded_rows = round_up(rows_, kMR);
    const int64_t index = (task_.batch * p_.problem.heads + head_) * p_.problem.queries + query_;
    const S *q = p_.q.row<S>(task_.batch, query_, head_), *dy = p_.dy.row<S>(task_.batch, query_, head_);
    queries_ = right_queries_ = Operands::left_rows(q, p_.q.row_stride, rows_, head_size_, own_queries_);
    dy_ = right_dy_ = Operands::left_rows(dy, p_.dy.row_stride, rows_, head_size_, own_dy_);
    if constexpr (kPairs) {
      right_queries_ = Operands::right_rows(q, p_.q.row_stride, rows_, head_size_, query_pairs_);
      right_dy_ = Operands::right_rows(dy, p_.dy.row_stride, rows_, head_size_, dy_pairs_);
    }
    pack_rows(p_.lse.as<T>() + index, 0, 1, rows_, static_cast<T>(kLog2E), lse_);
    for (int64_t r = 0; r < rows_; ++r) deltas_[r] = delta(r);
    std::fill(lse_ + rows_, lse_ + padded_rows, T(0));
    std::fill(deltas_ + rows_, deltas_ + padded_rows, T(0));
    for_each_key_tile({visible_.keys_of(query_).begin, visible_.keys_of(query_ + rows_ - 1).end}, [&] { key_tile(); });
    if (wants_dq_) {
      unpack_rows(dq_, rows_, head_size_, static_cast<T>(p_.problem.scale), p_.dq.add,
                  p_.dq.row<S>(task_.batch, query_, head_), p_.dq.row_stride);
    }
  }

  // rowsum(dY * Y) of query r of the current tile.
  T delta(int64_t r) const {
    const S* y = p_.y.row<S>(task_.batch, query_ + r, head_);
    const S* dy = p_.dy.row<S>(task_.batch, query_ + r, head_);
    return sum_of(D(), head_size_, [&](auto load) HWY_ATTR { return hn::Mul(load(y), load(dy)); });
  }

  void key_tile() {
    for (int64_t r = 0; r < round_up(rows_, kMR); ++r) {  // padding rows repeat the last row
      const PositionRange<int64_t> keys = visible_.keys_of(query_ + std::min(r, rows_ - 1));
      ranges_[r] = {std::clamp<int64_t>(keys.begin - key_, 0, keys_), std::clamp<int64_t>(keys.end - key_, 0, keys_)};
    }
    if (dropout_.on()) draw();
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t key = 0; key < ranges_[rows_ - 1].end; key += 2 * lanes) {
      for (int64_t tile_row = 0; tile_row < rows_; tile_row += kMR) {
        if (ranges_[tile_row].begin >= key + 2 * lanes) break;
        const int64_t some = ranges_[tile_row + kMR - 1].end - key;
        if (some > lanes) {
          weights_of_tile<RegisterTile<D, 2>>(tile_row, key);
        } else if (some > 0) {
          weights_of_tile<RegisterTile<D, 1>>(tile_row, key);
        }
      }
    }
    if (wants_dq_) add_dq();
    if (wants_dv_) add_over_queries(weights_, right_dy_, dv_ + row_at(key_));
    if (wants_dk_) add_over_queries(dscores_, right_queries_, dk_ + row_at(key_));
  }

  // Draws the random words of the tile, whole rows of it: those of one register tile would not fill a vector.
  void draw() {
    for (int64_t r = 0; r < round_up(rows_, kMR); ++r) {
      if (ranges_[r].begin >= ranges_[r].end) continue;
      dropout_.draw(r, task_.batch, head_, query_ + r, visible_.first_key + key_, ranges_[r].end);
    }
  }

  // P and dS of kMR queries and one register tile of keys from `key` on. Elements of masked keys are unspecified.
  template <class Tile>
  HWY_INLINE void weights_of_tile(int64_t tile_row, int64_t key) {
    const D d;
    const int64_t steps = head_size_ / Operands::kSize, panel = operand_at(key_) + key * steps;
    const auto rows = [&](const Rows<const Element>& all) {
      return OperandA<Element>{all.data + tile_row * all.stride, all.stride, 1};
    };
    Tile dweight(d), score(d);
    dweight.add(d, rows(dy_), value_panels_ + panel, panel_width<T>(), 0, steps);
    dweight.store(d, tile_dweights_, kTileKeys);
    score.add(d, rows(queries_), key_panels_ + panel, panel_width<T>(), 0, steps);
    if constexpr (kPairs) {
      score.transform(d, [&](int64_t, int64_t, Vec<D> v) HWY_ATTR { return hn::Mul(v, hn::Set(d, score_factor_)); });
    }
    if (slope_ != 0) add_bias(score, tile_row, key);
    const int64_t some = std::min(kMR, rows_ - tile_row);
    if constexpr (kPairs) {
      score.store(d, tile_scores_, kTileKeys);
      for (int64_t r = 0; r < some; r += 2) store_pairs(tile_row + r, r, key);
    } else if (dropout_.on()) {
      score.store(d, tile_scores_, kTileKeys);
      for (int64_t r = 0; r < some; ++r) store_dropped(tile_row + r, r, key);
    } else {
      // Uses the scores in the registers, without storing them first: saves 1.5 % of backward.
      score.each(d, [&](int64_t r, int64_t j, Vec<D> v) HWY_ATTR {
        store_widened(tile_row + r, key + j, weights_at(tile_row + r, r, j, v, [](Vec<D> kept) { return kept; }));
      });
    }
  }

  template <class Tile>
  HWY_INLINE void add_bias(Tile& score, int64_t tile_row, int64_t key) {
    const D d;
    const int64_t first = visible_.first_key + key_ + key;
    const int64_t query = query_ + tile_row + p_.problem.keys - p_.problem.queries;  // its position among the keys
    score.transform(
        d, [&](int64_t r, int64_t j, Vec<D> v) HWY_ATTR { return add_alibi(d, v, slope_, first + j, query + r); });
  }

  // A vector of P after dropout, and one of dS.
  struct Weights {
    Vec<D> weight, dscore;
  };
  // Computes them for query `row`, which is row r of the register tile, and the keys from j on.
  template <class Keep>
  HWY_INLINE Weights weights_at(int64_t row, int64_t r, int64_t j, Vec<D> score, const Keep& keep) const {
    const D d;
    const auto weight = exp2_of_negative(d, hn::Sub(score, hn::Set(d, lse_[row])));
    auto dweight = hn::Load(d, tile_dweights_ + r * kTileKeys + j);
    if constexpr (kPairs) dweight = hn::Mul(dweight, hn::Set(d, dweight_factor_));
    return {keep(weight), hn::Mul(weight, hn::Sub(keep(dweight), hn::Set(d, deltas_[row])))};
  }

  HWY_INLINE void store_widened(int64_t row, int64_t key, const Weights& at) {
    const D d;
    hn::Store(at.weight, d, weights_ + row * kBackwardKeys + key);
    hn::Store(at.dscore, d, dscores_ + row * kBackwardKeys + key);
  }

  // Writes row `row` of P and dS, with dropout, from the stored scores of row r of the register tile.
  void store_dropped(int64_t row, int64_t r, int64_t key) {
    const D d;
    const int64_t keys = keys_in_register_tile(row, key);
    for (int64_t j = 0; j < keys; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto keep = [&](Vec<D> v) HWY_ATTR { return dropout_.keep(d, v, row, key + j); };
      const auto score = hn::Load(d, tile_scores_ + r * kTileKeys + j);
      store_widened(row, key + j, weights_at(row, r, j, score, keep));
    }
  }

  // Writes P and dS as pairs of queries, and dS by rows, from the stored scores of rows r and r + 1 of the register
  // tile.
  void store_pairs(int64_t row, int64_t r, int64_t key) {
    const D d;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> d16;
    const int64_t keys = keys_in_register_tile(row + 1, key);
    for (int64_t j = 0; j < keys; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto at = [&](int64_t i) HWY_ATTR {
        const auto keep = [&](Vec<D> v) HWY_ATTR { return dropout_.on() ? dropout_.keep(d, v, row + i, key + j) : v; };
        return weights_at(row + i, r + i, j, hn::Load(d, tile_scores_ + (r + i) * kTileKeys + j), keep);
      };
      const Weights first = at(0), second = at(1);
      const auto dscores = round_to_bf16(first.dscore), next_dscores = round_to_bf16(second.dscore);
      const int64_t pair = row / 2 * kBackwardKeys + key + j;
      hn::Store(pair_of(d, round_to_bf16(first.weight), round_to_bf16(second.weight)), du, weights_ + pair);
      hn::Store(pair_of(d, dscores, next_dscores), du, dscores_ + pair);
      auto* const out = reinterpret_cast<uint16_t*>(dscore_rows_) + row * kBackwardKeys + key + j;
      hn::Store(dscores, d16, out);
      hn::Store(next_dscores, d16, out + kBackwardKeys);
    }
  }

  // The number of keys from `key` to the end of the range of a row within the register tile.
  int64_t keys_in_register_tile(int64_t row, int64_t key) const {
    return std::min(ranges_[row].end - key, panel_width<T>());
  }

  // sums (keys, D) += a^T b, skipping masked elements; a (queries, keys), b (queries, D).
  void add_over_queries(const Element* a, const Rows<const Element>& b, T* sums) {
    const D d;
    for_each_register_tile(d, head_size_, [&](int64_t c, auto zero) HWY_ATTR {
      for (int64_t tile_row = 0; tile_row < keys_; tile_row += kMR) {
        const auto in_tile = [&](int64_t query) { return std::clamp<int64_t>(query - query_, 0, rows_); };
        const PositionRange<int64_t> first = visible_.queries_of(key_ + tile_row);
        const PositionRange<int64_t> last = visible_.queries_of(key_ + std::min(tile_row + kMR, keys_) - 1);
        const MaskedSteps queries{in_tile(first.begin), in_tile(last.begin), in_tile(first.end), in_tile(last.end)};
        if (queries.begin >= queries.end) continue;
        const OperandA<Element> transposed{a + tile_row, 1, kBackwardKeys};
        T* out = sums + tile_row * row_size_ + c;
        auto tile = zero;
        tile.load(d, out, row_size_);
        tile.prefetch(out + kMR * row_size_, row_size_);  // saves about 3 % of backward over 4096 positions
        add_masked(tile, d, transposed, b.data + c, b.stride, queries, [&](int64_t r, int64_t query) {
          return query < rows_ && tile_row + r >= ranges_[query].begin && tile_row + r < ranges_[query].end;
        });
        tile.store(d, out, row_size_);
      }
    });
  }

  void add_dq() {
    const D d;
    const Element* keys = key_rows_ + operand_at(key_);
    constexpr int64_t kStride = kBackwardKeys / Operands::kSize;
    for_each_register_tile(d, head_size_, [&](int64_t c, auto zero) HWY_ATTR {
      for (int64_t tile_row = 0; tile_row < rows_; tile_row += kMR) {
        const PositionRange<int64_t>* ranges = ranges_ + tile_row;
        const MaskedSteps steps{ranges[0].begin, ranges[kMR - 1].begin, ranges[0].end, ranges[kMR - 1].end};
        if (steps.begin >= steps.end) continue;
        const OperandA<Element> dscores{dscore_rows_ + tile_row * kStride, kStride, 1};
        T* dq = dq_ + tile_row * row_size_ + c;
        auto tile = zero;
        const bool is_first_tile = visible_.keys_of(query_ + tile_row).begin >= key_;
        if (!is_first_tile) tile.load(d, dq, row_size_);
        add_masked(tile, d, dscores, keys + c, row_size_, steps,
                   [&](int64_t r, int64_t k) { return k >= ranges[r].begin && k < ranges[r].end; });
        tile.store(d, dq, row_size_);
      }
    });
  }

  // Zeroes the gradients of masked queries and keys, which no element of P depends on.
  void clear_masked() {
    const int64_t group = group_size(p_.problem);
    if (wants_dq_ && !p_.dq.add && task_.query_tiles.first == 0) {
      for (int64_t head = task_.kv_head * group; head < (task_.kv_head + 1) * group; ++head) {
        clear_rows(p_.dq, head, 0, visible_.first_query);
        clear_rows(p_.dq, head, visible_.end_query, p_.problem.queries);
      }
    }
    if (task_.key_tiles.first != 0) return;
    const int64_t end_key = visible_.first_key + visible_.keys;
    for (const auto& [wanted, gradient] : {std::pair(wants_dk_, &p_.dk), std::pair(wants_dv_, &p_.dv)}) {
      if (!wanted || gradient->add) continue;
      clear_rows(*gradient, task_.kv_head, 0, visible_.first_key);
      clear_rows(*gradient, task_.kv_head, end_key, p_.problem.keys);
    }
  }

  void clear_rows(const GradientHeads& heads, int64_t head, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) std::fill_n(heads.row<S>(task_.batch, t, head), head_size_, S(0));
  }

  const AttentionBackward& p_;
  const AttentionTask& task_;
  const KeyRange visible_;
  const int64_t head_size_, row_size_;
  DropoutTile<kTileQueries, kBackwardKeys> dropout_;
  const bool wants_dq_, wants_dk_, wants_dv_;
  Rows<const Element> queries_ = {}, dy_ = {};              // of the current query tile: left operands
  Rows<const Element> right_queries_ = {}, right_dy_ = {};  // right operands of sums over queries
  Element *key_panels_, *value_panels_, *key_rows_, *own_queries_, *own_dy_, *query_pairs_, *dy_pairs_;
  Element *weights_, *dscores_;  // left operands of sums over queries
  Element* dscore_rows_;         // left operand of a sum over keys
  T *dk_, *dv_, *dq_, *lse_, *deltas_;
  T score_factor_ = 1, dweight_factor_ = 1;  // of the products with key_panels_ and value_panels_
  static constexpr int64_t kTileKeys = 2 * HWY_LANES(T);
  HWY_ALIGN T tile_scores_[kMR * kTileKeys], tile_dweights_[kMR * kTileKeys];  // of the current register tile
  int64_t key_ = 0, keys_ = 0, head_ = 0, query_ = 0, rows_ = 0;               // of the current tiles
  PositionRange<int64_t> ranges_[kTileQueries] = {};  // key range of each row within the key tile
  T slope_ = 0;                                       // of ALiBi, for the current head
};

void backward_task(const AttentionBackward& p, const AttentionTask& task, void* scratch) {
#if HWY_TARGET <= HWY_AVX3
  if (p.problem.dtype == DType::bf16 && suits_bf16_pairs(p.problem.head_size, {p.q, p.k, p.v, p.dy})) {
    return BackwardTask<Bf16Pairs>(p, task, static_cast<float*>(scratch)).run();
  }
#endif
  visit_floating(p.problem.dtype, [&](auto zero) {
    using Task = BackwardTask<Widened<decltype(zero)>>;
    Task(p, task, static_cast<typename Task::T*>(scratch)).run();
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(backward_task);

void attention_backward(Context& context, const AttentionBackward& p) {
  if (p.problem.batch == 0 || (p.problem.queries == 0 && p.problem.keys == 0)) return;
  visit_accumulation(accumulation_dtype(p.problem.dtype), [&](auto zero) {
    using T = decltype(zero);
    const int64_t threads = threads_for(p.problem);
    const std::vector<AttentionTask> tasks = backward_tasks(p.problem, threads);
    for_each_task<T>(context, static_cast<int64_t>(tasks.size()), threads, BackwardLayout<T>(p.problem),
                     [&](int64_t i, T* scratch) {
                       HWY_DYNAMIC_DISPATCH(backward_task)(p, tasks[static_cast<size_t>(i)], scratch);
                     });
  });
}

}  // namespace heed::cpu
#endif
