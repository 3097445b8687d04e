// Attention forward on the CPU. A task is one kv head of one sequence: it packs keys (transposed) and values into
// aligned memory once for all query heads of the group; values for which usable_in_place() is true are read in place.
// Each tile of queries loops over tiles of keys; within a pair of tiles, scores, softmax and P V are computed for
// kMR (4 or 8) query rows at a time, which stay in L1. If there are few kv heads, a task computes a subset of the
// query tiles. No row of y depends on another row, so the bits depend neither on the threads nor on the division into
// tasks.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/attention/cpu/forward_cpu.cpp"
#include <hwy/foreach_target.h>

#include <cmath>
#include <limits>

#include "autograd/cpu/gemm/micro_kernel.hpp"
#include "autograd/ops/attention/cpu/decode.hpp"
#include "autograd/ops/attention/cpu/dropout.hpp"
#include "autograd/ops/attention/cpu/operands.hpp"
#include "autograd/ops/attention/cpu/plan.hpp"
#include "autograd/ops/attention/cpu/softmax.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// Forward of one task: one kv head of one sequence, with the query heads of its group.
template <class Operands>
class ForwardTask {
 public:
  using S = typename Operands::Storage;  // of q, k, v and y
  using T = AccumT<S>;
  using Element = typename Operands::Element;

  ForwardTask(const AttentionForward& p, const AttentionTask& task, T* scratch)
      : p_(p),
        task_(task),
        visible_(visibility(p.problem, task.batch)),
        head_size_(p.problem.head_size),
        row_size_(padded<T>(head_size_)),
        dropout_(p.problem) {
    const ForwardLayout<T> layout(p.problem);
    key_panels_ = reinterpret_cast<Element*>(scratch + layout.key_panels);
    own_values_ = reinterpret_cast<Element*>(scratch + layout.values);
    own_queries_ = reinterpret_cast<Element*>(scratch + layout.queries);
    own_y_ = scratch + layout.y;
    maxima_ = scratch + layout.maxima;
    sums_ = scratch + layout.sums;
    scores_ = scratch + layout.scores;
  }

  void run() {
    if (visible_.first_query < visible_.end_query) pack_keys();
    const int64_t group = group_size(p_.problem);
    for (head_ = task_.kv_head * group; head_ < (task_.kv_head + 1) * group; ++head_) {
      slope_ = slope_log2<T>(p_.problem, head_);
      if (task_.query_tiles.first == 0) {
        clear_rows(0, visible_.first_query);
        clear_rows(visible_.end_query, p_.problem.queries);
      }
      for (int64_t tile = task_.query_tiles.first; tile < query_tiles(visible_); tile += task_.query_tiles.step) {
        query_ = visible_.first_query + tile * kTileQueries;
        rows_ = std::min(kTileQueries, visible_.end_query - query_);
        query_tile();
      }
    }
  }

 private:
  using D = hn::ScalableTag<T>;
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();

  void pack_keys() {
    const int64_t first = visible_.first_key, keys = visible_.keys;
    score_factor_ = Operands::pack_right_columns(p_.k.row<S>(task_.batch, first, task_.kv_head), p_.k.row_stride, keys,
                                                 head_size_, static_cast<T>(p_.problem.scale * kLog2E), key_panels_);
    values_ = Operands::right_rows(p_.v.row<S>(task_.batch, first, task_.kv_head), p_.v.row_stride, keys, head_size_,
                                   own_values_);
  }

  void query_tile() {
    queries_ =
        Operands::left_rows(p_.q.row<S>(task_.batch, query_, head_), p_.q.row_stride, rows_, head_size_, own_queries_);
    y_ = output_rows();
    std::fill_n(maxima_, kTileQueries, -kInfinity);
    const int64_t first = visible_.keys_of(query_).begin, end = visible_.keys_of(query_ + rows_ - 1).end;
    for (int64_t key = first / kForwardKeys * kForwardKeys; key < end; key += kForwardKeys) {
      for (int64_t tile_row = 0; tile_row < rows_; tile_row += kMR) add_keys(tile_row, key);
    }
    finish_rows();
  }

  // Online softmax update of kMR query rows with the keys from `key` on, at most kForwardKeys of them: updates
  // maxima, sums and y (+= P V).
  void add_keys(int64_t tile_row, int64_t key) {
    const auto in_tile = [&](int64_t k) { return std::clamp<int64_t>(k - key, 0, kForwardKeys); };
    PositionRange<int64_t> rows[kMR];  // padding rows repeat the last row
    for (int64_t r = 0; r < kMR; ++r) {
      rows[r] = visible_.keys_of(query_ + std::min(tile_row + r, rows_ - 1));
      ranges_[r] = {in_tile(rows[r].begin), in_tile(rows[r].end)};
    }
    first_ = ranges_[0].begin / panel_width<T>() * panel_width<T>();
    end_ = ranges_[kMR - 1].end;
    if (ranges_[0].begin >= end_) return;
    is_first_tile_ = rows[0].begin >= key;
    const bool is_last_tile = rows[kMR - 1].end <= key + kForwardKeys;
    const D d;
    score_tile(tile_row, key);
    for (int64_t r = 0; r < kMR; ++r) bases_[r] = raise_maximum(tile_row + r, scores_ + r * kForwardKeys);
    weights_of_tile(tile_row, key);
    if (is_last_tile) finish_sums(tile_row);
    const OperandA<Element> weights{reinterpret_cast<const Element*>(scores_), kForwardKeys, 1};
    for_each_register_tile(d, head_size_, [&](int64_t c, auto tile) HWY_ATTR {
      T* y = y_.data + tile_row * y_.stride + c;
      const Element* values = values_.data + key / Operands::kSize * values_.stride + c;
      if (!is_first_tile_) tile.load(d, y, y_.stride);
      add_masked(tile, d, weights, values, values_.stride,
                 {ranges_[0].begin, ranges_[kMR - 1].begin, ranges_[0].end, end_},
                 [&](int64_t r, int64_t k) { return k >= ranges_[r].begin && k < ranges_[r].end; });
      if (is_last_tile) tile.scale(d, factors_ + tile_row);
      tile.store(d, y, y_.stride);
    });
  }

  // Scores of kMR rows from key first_ of the tile on, -Inf for masked keys.
  HWY_INLINE void score_tile(int64_t tile_row, int64_t key) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t query = tile_row + query_ + p_.problem.keys - p_.problem.queries;  // its position among the keys
    for_each_register_tile(d, end_ - first_, [&](int64_t offset, auto tile) HWY_ATTR {
      const int64_t n = first_ + offset;
      const int64_t steps = head_size_ / Operands::kSize;
      tile.add(d, OperandA<Element>{queries_.data + tile_row * queries_.stride, queries_.stride, 1},
               key_panels_ + (key + n) * steps, panel_width<T>(), 0, steps);
      if constexpr (Operands::kSize > 1) {
        tile.transform(
            d, [&](int64_t, int64_t, auto score) HWY_ATTR { return hn::Mul(score, hn::Set(d, score_factor_)); });
      }
      T* scores = scores_ + n;
      const bool all = n >= ranges_[kMR - 1].begin && n + 2 * lanes <= ranges_[0].end;
      if (all && slope_ == 0) {
        tile.store(d, scores, kForwardKeys);
        return;
      }
      tile.each(d, [&](int64_t r, int64_t j, auto score) HWY_ATTR {
        if (slope_ != 0) score = add_alibi(d, score, slope_, visible_.first_key + key + n + j, query + r);
        if (!all) score = lanes_within_or(d, score, {ranges_[r].begin - n - j, ranges_[r].end - n - j}, -kInfinity);
        hn::Store(score, d, scores + r * kForwardKeys + j);
      });
    });
  }

  // Updates the running maximum of a row with new scores and rescales the row's sums (denominator and y) to it. Returns
  // the value to subtract from the scores.
  HWY_INLINE T raise_maximum(int64_t row, const T* scores) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    auto top = hn::Set(d, -kInfinity);
    for (int64_t j = first_; j < end_; j += lanes) top = larger(hn::Load(d, scores + j), top);
    const T before = maxima_[row], maximum = std::max(before, largest_lane(d, top));
    maxima_[row] = maximum;
    // If all scores so far are -Inf, score - maximum would be NaN.
    const T base = maximum == -kInfinity ? T(0) : maximum;
    if (!is_first_tile_ && maximum > before) scale_row(row, std::exp2(before - base));
    return base;
  }

  // Replaces scores with unnormalised probabilities, in the memory of the scores; finish_sums() computes the
  // normalising factor.
  HWY_INLINE void weights_of_tile(int64_t tile_row, int64_t key) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t r = 0; r < kMR; ++r) {
      const int64_t row = tile_row + r;
      if (dropout_.on()) {
        dropout_.draw(0, task_.batch, head_, query_ + row, visible_.first_key + key + first_, end_ - first_);
      }
      T* scores = scores_ + r * kForwardKeys;
      T* sums = sums_ + row * kLine<T>;
      const auto base = hn::Set(d, bases_[r]);
      auto sum = is_first_tile_ ? hn::Zero(d) : hn::Load(d, sums);
      for (int64_t j = first_; j < end_; j += lanes) {
        const auto weight = exp2_of_negative(d, hn::Sub(hn::Load(d, scores + j), base));
        sum = hn::Add(sum, weight);
        store_weights(dropout_.on() ? dropout_.keep(d, weight, 0, j - first_) : weight, scores, j);
      }
      hn::Store(sum, d, sums);
    }
  }

  // Stores weights from column j on over the scores of the row. A bf16 weight takes half the memory of a score, so no
  // score is overwritten before it is read.
  static HWY_INLINE void store_weights(Vec<D> weights, T* row, int64_t j) {
    const D d;
    if constexpr (Operands::kSize > 1) {
      const hn::Rebind<uint16_t, D> d16;
      hn::Store(round_to_bf16(weights), d16, reinterpret_cast<uint16_t*>(row) + j);
    } else {
      hn::Store(weights, d, row + j);
    }
  }

  void scale_row(int64_t row, T factor) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto scale = [&](T* p) HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, p), hn::Set(d, factor)), d, p); };
    scale(sums_ + row * kLine<T>);
    for (int64_t c = 0; c < head_size_; c += lanes) scale(y_.data + row * y_.stride + c);
  }

  Rows<T> output_rows() const {
    if constexpr (std::is_same_v<S, T>) {
      if (is_in_place()) return {p_.y.row<S>(task_.batch, query_, head_), p_.y.row_stride};
    }
    return {own_y_, row_size_};
  }
  bool is_in_place() const { return usable_in_place<S>(p_.y.row_stride, rows_, head_size_); }

  // Softmax denominators of kMR rows, and the factors that normalise their rows of y.
  HWY_INLINE void finish_sums(int64_t tile_row) {
    const D d;
    const T kept = static_cast<T>(keep_scale(p_.problem));
    for (int64_t r = tile_row; r < tile_row + kMR; ++r) {
      totals_[r] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums_ + r * kLine<T>)));
      factors_[r] = kept / totals_[r];
    }
  }

  void finish_rows() {
    const D d;
    for_each_vector(d, rows_, [&](int64_t, auto load, auto store) HWY_ATTR {
      store(hn::MulAdd(load(maxima_), hn::Set(d, static_cast<T>(std::numbers::ln2)), Log(d, load(totals_))),
            lse() + query_);
    });
    if (is_in_place()) return;
    unpack_rows(own_y_, rows_, head_size_, T(1), false, p_.y.row<S>(task_.batch, query_, head_), p_.y.row_stride);
  }

  void clear_rows(int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      std::fill_n(p_.y.row<S>(task_.batch, t, head_), head_size_, S(0));
      lse()[t] = kInfinity;
    }
  }

  T* lse() const { return p_.lse.as<T>() + (task_.batch * p_.problem.heads + head_) * p_.problem.queries; }

  const AttentionForward& p_;
  const AttentionTask& task_;
  const KeyRange visible_;
  const int64_t head_size_, row_size_;
  DropoutTile<1, kForwardKeys> dropout_;
  Rows<const Element> queries_ = {}, values_ = {};
  Rows<T> y_ = {};
  Element *key_panels_, *own_values_, *own_queries_;
  T *own_y_, *maxima_, *sums_, *scores_;
  T score_factor_ = 1;  // of the products of queries_ and key_panels_
  T bases_[kMR] = {};   // of the current kMR rows
  // Key ranges of the current kMR rows within the current tile of keys; their union is within [first_, end_), where
  // first_ is a multiple of the panel width.
  PositionRange<int64_t> ranges_[kMR] = {};
  int64_t first_ = 0, end_ = 0;
  bool is_first_tile_ = false;  // the first with keys of these rows
  T slope_ = 0;                 // of ALiBi, for the current head
  T totals_[kTileQueries] = {}, factors_[kTileQueries] = {};
  int64_t head_ = 0, query_ = 0, rows_ = 0;  // of the current query tile
};

void forward_task(const AttentionForward& p, const AttentionTask& task, void* scratch) {
#if HWY_TARGET <= HWY_AVX3
  if (p.problem.dtype == DType::bf16 && suits_bf16_pairs(p.problem.head_size, {p.q, p.k})) {
    return ForwardTask<Bf16Pairs>(p, task, static_cast<float*>(scratch)).run();
  }
#endif
  visit_floating(p.problem.dtype, [&](auto zero) {
    using Task = ForwardTask<Widened<decltype(zero)>>;
    Task(p, task, static_cast<typename Task::T*>(scratch)).run();
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(forward_task);

void attention_forward(Context& context, const AttentionForward& p) {
  const int64_t kv_heads = p.problem.batch * p.problem.kv_heads;
  if (kv_heads == 0 || p.problem.queries == 0) return;
  if (suits_decode(p.problem)) return attention_decode(context, p);
  // Each subset of a head packs the keys again, so use no more subsets than needed to keep the threads busy.
  constexpr int64_t kTasksPerThread = 4;
  const int64_t threads = threads_for(p.problem);
  const int64_t shares = std::clamp<int64_t>(ceil_divide(kTasksPerThread * threads, kv_heads), 1,
                                             ceil_divide(p.problem.queries, kTileQueries));
  visit_accumulation(accumulation_dtype(p.problem.dtype), [&](auto zero) {
    using T = decltype(zero);
    for_each_task<T>(context, kv_heads * shares, threads, ForwardLayout<T>(p.problem), [&](int64_t i, T* scratch) {
      const int64_t kv_head = i / shares;
      const AttentionTask task{.batch = kv_head / p.problem.kv_heads,
                               .kv_head = kv_head % p.problem.kv_heads,
                               .query_tiles = {i % shares, shares}};
      HWY_DYNAMIC_DISPATCH(forward_task)(p, task, scratch);
    });
  });
}

}  // namespace heed::cpu
#endif
