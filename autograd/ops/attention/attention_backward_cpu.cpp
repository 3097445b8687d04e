// Backward. With the weights P = exp(scores - lse) computed again,
//   dV = P^T dY    dS = P * (dY V^T - rowsum(dY * Y))    dK = dS^T (scale Q)    dQ = dS (scale K)
// A task is a kv head of a sequence: over its tiles of keys, and for each over the query heads of the group and their
// tiles of queries, so dK and dV of a tile of keys are summed in scratch memory and dQ in place. Where there are too
// few kv heads for the threads, dK, dV and dQ are separate tasks on shares of the tiles, at 7 products instead of 5.
// Each element is summed in the same order either way, so the bits do not depend on the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/attention/attention_backward_cpu.cpp"
#include <hwy/foreach_target.h>

#include <vector>

#include "autograd/ops/attention/attention_dropout.hpp"
#include "autograd/ops/attention/attention_plan.hpp"
#include "autograd/ops/attention/attention_tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class S>
class BackwardTask {
 public:
  using T = ComputeOf<S>;  // q, k, v, y and their gradients are S

  BackwardTask(const AttentionBackward& p, const AttentionTask& task, const T* deltas, T* scratch)
      : p_(p),
        task_(task),
        visible_(visibility(p.problem, task.batch)),
        head_size_(p.problem.head_size),
        row_size_(padded<T>(head_size_)),
        deltas_(deltas),
        dropout_(p.problem),
        wants_dq_(task.dq && p.dq),
        wants_dk_(task.dkv && p.dk),
        wants_dv_(task.dkv && p.dv) {
    const BackwardLayout<T> layout(p.problem);
    key_panels_ = scratch + layout.key_panels;
    value_panels_ = scratch + layout.value_panels;
    scaled_keys_ = scratch + layout.keys;
    dk_ = scratch + layout.dk;
    dv_ = scratch + layout.dv;
    queries_ = scratch + layout.queries;
    dy_ = scratch + layout.dy;
    dq_ = scratch + layout.dq;
    weights_ = scratch + layout.weights;
    dscores_ = scratch + layout.dscores;
    dq_sums_ = scratch + layout.dq_sums;
  }

  void run() {
    clear_masked();
    const int64_t tiles = visible_.first_query < visible_.end_query ? ceil_divide(visible_.keys, kBackwardKeys) : 0;
    for (int64_t tile = task_.key_tiles.first; tile < tiles; tile += task_.key_tiles.step) {
      key_ = tile * kBackwardKeys;
      keys_ = std::min(kBackwardKeys, visible_.keys - key_);
      key_tile();
    }
    if (kSumsApart && wants_dq_ && tiles > 0) {
      key_ = 0;
      for_each_query_tile([&] { store_dq(dq_of_strip(0), 0, rows_, p_.dq.add); });
    }
  }

 private:
  // Where dQ is stored in bf16, sums over tiles of keys are kept in f32 until they are complete.
  static constexpr bool kSumsApart = !std::is_same_v<S, T>;

  using D = hn::ScalableTag<T>;

  void key_tile() {
    const int64_t batch = task_.batch, kv_head = task_.kv_head, first = visible_.first_key + key_;
    const S* k = p_.k.row<S>(batch, first, kv_head);
    const T scale = static_cast<T>(p_.problem.scale), kept = static_cast<T>(keep_scale(p_.problem));
    pack_panels(k, p_.k.row_stride, keys_, head_size_, T(1), key_panels_);
    pack_rows(k, p_.k.row_stride, keys_, head_size_, scale, scaled_keys_);
    pack_panels(p_.v.row<S>(batch, first, kv_head), p_.v.row_stride, keys_, head_size_, kept, value_panels_);
    std::fill_n(dk_, kBackwardKeys * row_size_, T(0));
    std::fill_n(dv_, kBackwardKeys * row_size_, T(0));
    for_each_query_tile([&] { query_tile(); });
    if (wants_dk_) {
      unpack_rows(dk_, keys_, head_size_, T(1), p_.dk.add, p_.dk.row<S>(batch, first, kv_head), p_.dk.row_stride);
    }
    if (wants_dv_) {
      unpack_rows(dv_, keys_, head_size_, kept, p_.dv.add, p_.dv.row<S>(batch, first, kv_head), p_.dv.row_stride);
    }
  }

  // The query tiles of this task that see a key of the tile.
  template <class Body>
  void for_each_query_tile(const Body& body) {
    const int64_t group = group_size(p_.problem);
    const auto [share, step] = task_.query_tiles;
    const int64_t seeing = (visible_.first_query_seeing(key_) - visible_.first_query) / kTileQueries;
    const int64_t first = share + std::max<int64_t>(0, ceil_divide(seeing - share, step)) * step;
    for (head_ = task_.kv_head * group; head_ < (task_.kv_head + 1) * group; ++head_) {
      for (int64_t tile = first; tile < query_tiles(visible_); tile += step) {
        query_ = visible_.first_query + tile * kTileQueries;
        rows_ = std::min(kTileQueries, visible_.end_query - query_);
        body();
      }
    }
  }

  void query_tile() {
    const int64_t strips = round_up(rows_, kStrip);
    pack_rows(p_.q.row<S>(task_.batch, query_, head_), p_.q.row_stride, rows_, head_size_,
              static_cast<T>(p_.problem.scale), queries_);
    pack_rows(p_.dy.row<S>(task_.batch, query_, head_), p_.dy.row_stride, rows_, head_size_, T(1), dy_);
    std::fill(queries_ + rows_ * row_size_, queries_ + strips * row_size_, T(0));
    std::fill(dy_ + rows_ * row_size_, dy_ + strips * row_size_, T(0));
    for (int64_t r = 0; r < strips; ++r) {  // rows of padding see what the last row sees
      seen_[r] = std::clamp<int64_t>(visible_.seen(query_ + std::min(r, rows_ - 1)) - key_, 0, keys_);
    }
    for (int64_t strip = 0; strip < rows_; strip += kStrip) weights_of_strip(strip);
    if (wants_dv_) add_over_queries(weights_, dy_, dv_);
    if (wants_dk_) add_over_queries(dscores_, queries_, dk_);
    if (wants_dq_) add_dq();
  }

  // P and dS of kStrip queries.
  void weights_of_strip(int64_t strip) {
    const D d;
    const int64_t most = seen_[strip + kStrip - 1];
    T* weights = weights_ + strip * kBackwardKeys;
    T* dscores = dscores_ + strip * kBackwardKeys;
    strip_scores(d, queries_ + strip * row_size_, key_panels_, head_size_, most, weights, kBackwardKeys);
    if (wants_dq_ || wants_dk_) {
      strip_scores(d, dy_ + strip * row_size_, value_panels_, head_size_, most, dscores, kBackwardKeys);
    }
    for (int64_t r = 0; r < std::min(kStrip, rows_ - strip); ++r) {
      weights_of_row(strip + r, weights + r * kBackwardKeys, dscores + r * kBackwardKeys);
    }
  }

  // weights: from scores to P, dscores: from dY V^T to dS.
  void weights_of_row(int64_t row, T* weights, T* dscores) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t count = seen_[row];
    const int64_t index = (task_.batch * p_.problem.heads + head_) * p_.problem.queries + query_ + row;
    const auto lse = hn::Set(d, p_.lse.as<T>()[index]), delta = hn::Set(d, deltas_[index]);
    if (dropout_.on()) dropout_.draw(task_.batch, head_, query_ + row, visible_.first_key + key_, count);
    for (int64_t j = 0; j < count; j += lanes) {
      const auto weight = exp_of_negative(d, hn::Sub(hn::Load(d, weights + j), lse));
      auto dweight = hn::Load(d, dscores + j);
      if (dropout_.on()) dweight = dropout_.keep(d, dweight, j);
      hn::Store(hn::Mul(weight, hn::Sub(dweight, delta)), d, dscores + j);
      hn::Store(dropout_.on() ? dropout_.keep(d, weight, j) : weight, d, weights + j);
    }
  }

  // sums (keys, D) += left^T right, left (queries, keys), right (queries, D).
  void add_over_queries(const T* left, const T* right, T* sums) {
    const D d;
    for (int64_t strip = 0; strip < keys_; strip += kStrip) {
      const int64_t last = std::min(strip + kStrip, keys_) - 1;
      const auto first_row = [&](int64_t key) {
        return std::clamp<int64_t>(visible_.first_query_seeing(key_ + key) - query_, 0, rows_);
      };
      const int64_t some = first_row(strip), all = first_row(last);
      if (some == rows_) return;
      const Left<T> transposed{left + strip, 1, kBackwardKeys};
      for_each_block(d, head_size_, [&](int64_t c, auto block) HWY_ATTR {
        T* out = sums + strip * row_size_ + c;
        block.load(d, out, row_size_);
        block.add_where(d, transposed, right + c, row_size_, some, all,
                        [&](int64_t r, int64_t query) { return strip + r < seen_[query]; });
        block.add(d, transposed, right + c, row_size_, all, rows_);
        block.store(d, out, row_size_);
      });
    }
  }

  void add_dq() {
    const D d;
    for (int64_t strip = 0; strip < rows_; strip += kStrip) {
      const int64_t* seen = seen_ + strip;
      if (seen[kStrip - 1] == 0) continue;
      const Left<T> dscores{dscores_ + strip * kBackwardKeys, kBackwardKeys, 1};
      for_each_block(d, head_size_, [&](int64_t c, auto block) HWY_ATTR {
        if (kSumsApart && key_ > 0) block.load(d, dq_of_strip(strip) + c, row_size_);
        block.add(d, dscores, scaled_keys_ + c, row_size_, 0, seen[0]);
        block.add_where(d, dscores, scaled_keys_ + c, row_size_, seen[0], seen[kStrip - 1],
                        [&](int64_t r, int64_t k) { return k < seen[r]; });
        block.store(d, dq_of_strip(strip) + c, row_size_);
      });
      // Every query sees the first tile of keys, which comes first.
      if (!kSumsApart) store_dq(dq_of_strip(strip), strip, std::min(kStrip, rows_ - strip), p_.dq.add || key_ > 0);
    }
  }

  T* dq_of_strip(int64_t strip) const {
    if (!kSumsApart) return dq_ + strip * row_size_;
    const int64_t head = head_ - task_.kv_head * group_size(p_.problem);
    const int64_t row = head * round_up(p_.problem.queries, kTileQueries) + query_ - visible_.first_query + strip;
    return dq_sums_ + row * row_size_;
  }

  void store_dq(const T* dq, int64_t row, int64_t rows, bool add) const {
    unpack_rows(dq, rows, head_size_, T(1), add, p_.dq.row<S>(task_.batch, query_ + row, head_), p_.dq.row_stride);
  }

  // Gradients of what no weight depends on.
  void clear_masked() {
    const int64_t group = group_size(p_.problem);
    if (wants_dq_ && !p_.dq.add && task_.query_tiles.first == 0) {
      for (int64_t head = task_.kv_head * group; head < (task_.kv_head + 1) * group; ++head) {
        clear_rows(p_.dq, head, 0, visible_.first_query);
        clear_rows(p_.dq, head, visible_.end_query, p_.problem.queries);
      }
    }
    if (task_.key_tiles.first != 0) return;
    const bool none = visible_.first_query == visible_.end_query;
    const int64_t end_key = none ? visible_.first_key : visible_.first_key + visible_.keys;
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
  const Visibility visible_;
  const int64_t head_size_, row_size_;
  const T* deltas_;
  DropoutRow dropout_;
  const bool wants_dq_, wants_dk_, wants_dv_;
  T *key_panels_, *value_panels_, *scaled_keys_, *dk_, *dv_, *queries_, *dy_, *dq_, *weights_, *dscores_, *dq_sums_;
  int64_t key_ = 0, keys_ = 0, head_ = 0, query_ = 0, rows_ = 0;  // of the tiles at work
  int64_t seen_[kTileQueries] = {};                               // keys of the tile that a row sees
};

void backward_task(const AttentionBackward& p, const AttentionTask& task, const void* deltas, void* scratch) {
  visit_floating(p.problem.dtype, [&](auto zero) {
    using Task = BackwardTask<decltype(zero)>;
    using T = typename Task::T;
    Task(p, task, static_cast<const T*>(deltas), static_cast<T*>(scratch)).run();
  });
}

// rowsum(dY * Y) of positions [begin, end) of (batch, queries), for all heads; deltas (B, H, Tq).
void delta_rows(const AttentionBackward& p, void* deltas, int64_t begin, int64_t end) {
  visit_floating(p.problem.dtype, [&](auto zero) {
    using S = decltype(zero);
    using T = ComputeOf<S>;
    const hn::ScalableTag<T> d;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / p.problem.queries, query = i % p.problem.queries;
      T* delta = static_cast<T*>(deltas) + batch * p.problem.heads * p.problem.queries + query;
      for (int64_t head = 0; head < p.problem.heads; ++head, delta += p.problem.queries) {
        const S* y = p.y.row<S>(batch, query, head);
        const S* dy = p.dy.row<S>(batch, query, head);
        *delta = sum_of(d, p.problem.head_size, [&](auto load) HWY_ATTR { return hn::Mul(load(y), load(dy)); });
      }
    }
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(backward_task);
HWY_EXPORT(delta_rows);

namespace {

std::vector<AttentionTask> backward_tasks(const AttentionProblem& p, int64_t threads) {
  const int64_t kv_heads = p.batch * p.kv_heads;
  // Splitting costs 7 products instead of 5, whole heads may leave threads idle in the last round.
  const bool split = 5 * ceil_divide(kv_heads, threads) * threads > 7 * kv_heads;
  constexpr int64_t kTasksPerThread = 4;
  const int64_t wanted = split ? ceil_divide(kTasksPerThread * threads, 2 * kv_heads) : 1;
  const auto shares = [&](int64_t size, int64_t tile) {
    return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, ceil_divide(size, tile)));
  };
  const int64_t key_shares = shares(p.keys, kBackwardKeys), query_shares = shares(p.queries, kTileQueries);
  std::vector<AttentionTask> tasks;
  for (int64_t i = 0; i < kv_heads; ++i) {
    AttentionTask task{.batch = i / p.kv_heads, .kv_head = i % p.kv_heads};
    if (!split) {
      tasks.push_back(task);
      continue;
    }
    task.dq = false;
    for (int64_t s = 0; s < key_shares; ++s) {
      task.key_tiles = {s, key_shares};
      tasks.push_back(task);
    }
    task.dq = true;
    task.dkv = false;
    task.key_tiles = {};
    for (int64_t s = 0; s < query_shares; ++s) {
      task.query_tiles = {s, query_shares};
      tasks.push_back(task);
    }
  }
  return tasks;
}

}  // namespace

void attention_backward(Context& context, const AttentionBackward& p) {
  if (p.problem.batch == 0 || (p.problem.queries == 0 && p.problem.keys == 0)) return;
  visit_compute(compute_dtype(p.problem.dtype), [&](auto zero) {
    using T = decltype(zero);
    const int64_t positions = p.problem.batch * p.problem.queries;
    const int64_t threads = threads_for(p.problem);
    const Scratch<T> deltas(context, positions * p.problem.heads);
    parallel_for(positions, ceil_divide(kElementwiseGrain, p.problem.heads * p.problem.head_size),
                 [&](int64_t begin, int64_t end) {
                   HWY_DYNAMIC_DISPATCH(delta_rows)
                   (p, deltas.data(), begin, end);
                 });
    const std::vector<AttentionTask> tasks = backward_tasks(p.problem, threads);
    for_each_task<T>(context, static_cast<int64_t>(tasks.size()), threads, BackwardLayout<T>(p.problem),
                     [&](int64_t i, T* scratch) {
                       HWY_DYNAMIC_DISPATCH(backward_task)(p, tasks[static_cast<size_t>(i)], deltas.data(), scratch);
                     });
  });
}

}  // namespace heed::cpu
#endif
