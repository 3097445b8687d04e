// Attention of one query per sequence. The time is that of reading the keys and values, so they are read once and in
// place. A task is a chunk of kChunkKeys keys of one sequence with all heads: their rows are adjacent in memory, which
// is then read sequentially, and the query heads of a group share each row. Each chunk has its own softmax; the chunks
// of a sequence are combined by their maxima and sums ("Flash-Decoding", Dao et al. 2023). The chunks depend on the
// shape alone, so the bits do not depend on the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/attention/cpu/decode_cpu.cpp"
#include <hwy/foreach_target.h>

#include <cmath>
#include <limits>

#include "autograd/ops/attention/cpu/decode.hpp"
#include "autograd/ops/attention/cpu/plan.hpp"
#include "autograd/ops/attention/cpu/softmax.hpp"

#ifndef HEED_AUTOGRAD_OPS_ATTENTION_DECODE_LAYOUT
#define HEED_AUTOGRAD_OPS_ATTENTION_DECODE_LAYOUT
namespace heed::cpu {

constexpr int64_t kChunkKeys = 64;

// The result of a chunk: y without its normalisation, and for each head the maximum of its scores and the sum of its
// probabilities relative to it.
template <class T>
struct ChunkLayout : ScratchLayout<T> {
  int64_t y, maxima, sums;

  explicit ChunkLayout(const AttentionProblem& p) {
    y = this->take(p.heads * p.head_size);
    maxima = this->take(p.heads);
    sums = this->take(p.heads);
  }
};

// Scratch memory of a thread.
template <class T>
struct DecodeLayout : ScratchLayout<T> {
  int64_t queries;  // scaled, (H, D)
  int64_t scores;   // (H, kChunkKeys), then the probabilities
  int64_t slopes;   // of ALiBi, (H)

  explicit DecodeLayout(const AttentionProblem& p) {
    queries = this->take(p.heads * p.head_size);
    scores = this->take(p.heads * kChunkKeys);
    slopes = this->take(p.heads);
  }
};

// The keys that the query of a sequence attends to.
inline PositionRange<int64_t> keys_of_query(const AttentionProblem& p, int64_t batch) {
  const KeyRange visible = visibility(p, batch);
  if (visible.first_query > 0 || visible.end_query < 1) return {0, 0};
  return visible.mask.of_queries.of(0);
}

}  // namespace heed::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class S>
class DecodeChunk {
 public:
  using T = AccumT<S>;

  DecodeChunk(const AttentionForward& p, int64_t batch, PositionRange<int64_t> keys, T* result, T* scratch)
      : p_(p), batch_(batch), keys_(keys), head_size_(p.problem.head_size), group_(group_size(p.problem)) {
    const ChunkLayout<T> chunk(p.problem);
    const DecodeLayout<T> layout(p.problem);
    y_ = result + chunk.y;
    maxima_ = result + chunk.maxima;
    sums_ = result + chunk.sums;
    queries_ = scratch + layout.queries;
    scores_ = scratch + layout.scores;
    slopes_ = scratch + layout.slopes;
  }

  void run() {
    scale_queries();
    for (int64_t key = keys_.begin; key < keys_.end; ++key) score(key);
    for (int64_t head = 0; head < p_.problem.heads; ++head) softmax(head);
    std::fill_n(y_, p_.problem.heads * head_size_, T(0));
    int64_t key = keys_.begin;
    for (; key + kUnroll <= keys_.end; key += kUnroll) add_values<kUnroll>(key);
    for (; key < keys_.end; ++key) add_values<1>(key);
  }

 private:
  using D = hn::ScalableTag<T>;
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  // Values that are added to y at a time: y is read and written less often.
  static constexpr int64_t kUnroll = 4;

  // Scores in base 2, as softmax.hpp says.
  void scale_queries() {
    const D d;
    const auto factor = hn::Set(d, static_cast<T>(p_.problem.scale * kLog2E));
    for (int64_t head = 0; head < p_.problem.heads; ++head) {
      const S* q = p_.q.row<S>(batch_, 0, head);
      T* to = queries_ + head * head_size_;
      slopes_[head] = slope_log2<T>(p_.problem, head);
      for_each_vector(d, head_size_,
                      [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Mul(load(q), factor), to); });
    }
  }

  HWY_INLINE void score(int64_t key) {
    const D d;
    for (int64_t head = 0; head < p_.problem.heads; ++head) {
      const S* k = p_.k.row<S>(batch_, key, head / group_);
      const T* q = queries_ + head * head_size_;
      const T bias = slopes_[head] * static_cast<T>(key - (p_.problem.keys - 1));
      scores_[head * kChunkKeys + key - keys_.begin] =
          bias + sum_of(d, head_size_, [&](auto load) HWY_ATTR { return hn::Mul(load(q), load(k)); });
    }
  }

  // Replaces the scores of a head by probabilities that are not normalised yet.
  HWY_INLINE void softmax(int64_t head) {
    const D d;
    T* scores = scores_ + head * kChunkKeys;
    const int64_t count = keys_.end - keys_.begin;
    T maximum = -kInfinity;
    for (int64_t j = 0; j < count; ++j) maximum = scores[j] > maximum ? scores[j] : maximum;
    // If all scores are -Inf, score - maximum would be NaN.
    const auto base = hn::Set(d, maximum == -kInfinity ? T(0) : maximum);
    for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
      store(exp2_of_negative(d, hn::Sub(load(scores), base)), scores);
    });
    maxima_[head] = maximum;
    sums_[head] = sum_of(d, count, [&](auto load) HWY_ATTR { return load(scores); });
  }

  // y += P V for kKeys keys.
  template <int64_t kKeys>
  HWY_INLINE void add_values(int64_t key) {
    const D d;
    for (int64_t head = 0; head < p_.problem.heads; ++head) {
      const T* weights = scores_ + head * kChunkKeys + key - keys_.begin;
      const S* v = p_.v.row<S>(batch_, key, head / group_);
      T* y = y_ + head * head_size_;
      for_each_vector(d, head_size_, [&](int64_t, auto load, auto store) HWY_ATTR {
        auto sum = load(y);
        for (int64_t j = 0; j < kKeys; ++j) {
          sum = hn::MulAdd(hn::Set(d, weights[j]), load(v + j * p_.v.row_stride), sum);
        }
        store(sum, y);
      });
    }
  }

  const AttentionForward& p_;
  const int64_t batch_;
  const PositionRange<int64_t> keys_;
  const int64_t head_size_, group_;
  T *y_, *maxima_, *sums_, *queries_, *scores_, *slopes_;
};

void decode_chunk(const AttentionForward& p, int64_t batch, PositionRange<int64_t> keys, void* result, void* scratch) {
  visit_floating(p.problem.dtype, [&](auto zero) {
    using Chunk = DecodeChunk<decltype(zero)>;
    Chunk(p, batch, keys, static_cast<typename Chunk::T*>(result), static_cast<typename Chunk::T*>(scratch)).run();
  });
}

// y and log-sum-exp of a sequence from its chunks.
template <class S>
void combine_chunks(const AttentionForward& p, int64_t batch, AccumT<S>* chunks, int64_t count) {
  using T = AccumT<S>;
  const hn::ScalableTag<T> d;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const ChunkLayout<T> layout(p.problem);
  const int64_t size = layout.elements(), head_size = p.problem.head_size;
  for (int64_t head = 0; head < p.problem.heads; ++head) {
    T maximum = -kInfinity, sum = 0;
    for (int64_t i = 0; i < count; ++i) maximum = std::max(maximum, chunks[i * size + layout.maxima + head]);
    T* const y = chunks + layout.y + head * head_size;  // of the first chunk, to which the others are added
    for (int64_t i = 0; i < count; ++i) {
      T* const chunk = chunks + i * size;
      const T own = chunk[layout.maxima + head];
      const T weight = own == maximum ? T(1) : std::exp2(own - maximum);
      sum += weight * chunk[layout.sums + head];
      const T* const from = chunk + layout.y + head * head_size;
      for_each_vector(d, head_size, [&](int64_t, auto load, auto store) HWY_ATTR {
        const auto part = hn::Mul(hn::Set(d, weight), load(from));
        store(i == 0 ? part : hn::Add(load(y), part), y);
      });
    }
    const T base = maximum == -kInfinity ? T(0) : maximum;
    p.lse.as<T>()[batch * p.problem.heads + head] =
        count == 0 ? kInfinity : base * static_cast<T>(std::numbers::ln2) + std::log(sum);
    S* const to = p.y.row<S>(batch, 0, head);
    if (count == 0) {
      std::fill_n(to, head_size, S(0));
      continue;
    }
    for_each_vector(d, head_size,
                    [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Mul(load(y), hn::Set(d, 1 / sum)), to); });
  }
}

void combine(const AttentionForward& p, int64_t batch, void* chunks, int64_t count) {
  visit_floating(p.problem.dtype, [&](auto zero) {
    using S = decltype(zero);
    combine_chunks<S>(p, batch, static_cast<AccumT<S>*>(chunks), count);
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(decode_chunk);
HWY_EXPORT(combine);

bool suits_decode(const AttentionProblem& p) { return p.queries == 1 && p.dropout == 0; }

void attention_decode(Context& context, const AttentionForward& p) {
  const int64_t batch = p.problem.batch, threads = threads_for(p.problem);
  std::vector<PositionRange<int64_t>> keys;  // of each sequence
  std::vector<int64_t> first_chunk{0};       // of each sequence, and the end of the last
  for (int64_t b = 0; b < batch; ++b) {
    keys.push_back(keys_of_query(p.problem, b));
    first_chunk.push_back(first_chunk.back() +
                          ceil_divide(std::max<int64_t>(0, keys[b].end - keys[b].begin), kChunkKeys));
  }
  visit_accumulation(accumulation_dtype(p.problem.dtype), [&](auto zero) {
    using T = decltype(zero);
    const int64_t size = ChunkLayout<T>(p.problem).elements();
    const Scratch<T> chunks(context, std::max<int64_t>(1, first_chunk.back()) * size);
    for_each_task<T>(context, first_chunk.back(), threads, DecodeLayout<T>(p.problem), [&](int64_t i, T* scratch) {
      const int64_t b = std::upper_bound(first_chunk.begin(), first_chunk.end(), i) - first_chunk.begin() - 1;
      const int64_t begin = keys[b].begin + (i - first_chunk[b]) * kChunkKeys;
      const PositionRange<int64_t> part{begin, std::min(begin + kChunkKeys, keys[b].end)};
      HWY_DYNAMIC_DISPATCH(decode_chunk)(p, b, part, chunks.data() + i * size, scratch);
    });
    parallel_tasks(batch, threads, [&](int64_t b, int64_t) {
      HWY_DYNAMIC_DISPATCH(combine)
      (p, b, chunks.data() + first_chunk[b] * size, first_chunk[b + 1] - first_chunk[b]);
    });
  });
}

}  // namespace heed::cpu
#endif
