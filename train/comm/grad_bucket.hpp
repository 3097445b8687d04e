// Gradient buckets: reduction of the gradients over the ranks, overlapped with backward, and the parameters that each
// rank updates.
//
// The flat gradient buffers are cut into buckets, which are reduced over the ranks one by one while the last backward
// of a step still runs. A bucket is ready as soon as the gradients of all its parameters are final. How often backward
// accumulates into the gradient of a parameter is learned in the first step, which reduces all buckets after backward.
// Ranks match collectives by the order in which they issue them, and ranks may differ in the parameters that they use.
// Therefore every rank issues the buckets in the order of their index, which is the order in which backward reaches the
// last parameter of each bucket; a ready bucket waits for those before it. A parameter that a rank does not use
// contributes zeros.
//
// Sharded (ZeRO-1: Rajbhandari, Rasley, Ruwase, He 2019, arXiv 1910.02054), each bucket is size() shards of equal
// length, and rank r keeps the moments, and in bf16 the f32 master weights, of shard r only. It gets the summed
// gradients of its shards (reduce-scatter), updates their weights, and sends these to the other ranks (all-gather).
//
// Parameters that the optimizer treats differently (EntryOptions) are in different spans: a parameter group, or a shard
// of a bucket, is cut where they change.
#pragma once

#include <map>
#include <vector>

#include "autograd/tape.hpp"
#include "nn/parameter_store.hpp"
#include "optim/optimizer.hpp"
#include "train/comm/communicator.hpp"

namespace heed::comm {

// How the optimizer treats a parameter.
struct EntryOptions {
  bool is_hidden_matrix = false;  // updated by Muon
  double learning_rate_scale = 1, weight_decay_scale = 1;

  friend bool operator==(const EntryOptions&, const EntryOptions&) = default;
};

class GradBuckets final : private GradientObserver {
 public:
  // If sharded, the flat parameter ranges of the store must be a multiple of span_multiple(size) elements long.
  // options: of each entry of the store; empty: the defaults for all.
  GradBuckets(Communicator& communicator, nn::ParameterStore& store, bool sharded,
              std::vector<EntryOptions> options = {});
  ~GradBuckets() override = default;
  GradBuckets(const GradBuckets&) = delete;
  GradBuckets& operator=(const GradBuckets&) = delete;

  static int64_t span_multiple(int size) { return int64_t{16} * size; }

  // The flat parameter ranges that this rank updates, cut where the options change.
  const std::vector<optim::ParameterSpan>& spans() const { return spans_; }
  // The same uncut, as many on each rank: whole parameter groups, or the rank's shards of the buckets.
  const std::vector<optim::ParameterSpan>& shards() const { return shards_; }
  bool sharded() const { return sharded_; }
  size_t count() const { return buckets_.size(); }
  // Number of buckets whose reduction started during backward (overlapped), in the last step.
  size_t overlapped() const { return left_early_; }

  // Runs the last backward of a step (`backward` may also run the forward) and starts the reduction of each bucket when
  // it is ready. Throws GraphError, which names the parameter, if a parameter is used more often than in the first
  // step.
  void last_backward(const std::function<void()>& backward);
  // Starts the reduction of the remaining buckets (flush). After the communicator's next wait(), the gradients of
  // spans() are the sums over the ranks.
  void flush();
  // Call this after the optimizer step, which has written the weights and bf16 copies of spans(). If sharded, it
  // all-gathers the leaves and updates the other bf16 copies. Includes the communicator's wait().
  void all_gather_parameters();
  // If sharded, gives all ranks the gradients of the hidden matrices, of which each rank has those of its spans().
  void all_gather_matrix_gradients();

  // Gathers a flat tensor as long as the group. `own` has this rank's tensors for its spans() of that group, in their
  // order; where one is empty the result is 0. It returns own[0] itself if that is as long as the group, else a tensor
  // in CPU memory on the ranks where `wanted` is true, and none on the others. Sharded, it gathers bucket by bucket and
  // is collective.
  Tensor whole(int group, const std::vector<Tensor>& own, bool wanted = true) const;
  // The inverse of whole(), as a local scatter: copies the ranges of spans() of the group from `whole`, a flat tensor
  // as long as the group, to those tensors of `own` that are not empty.
  void scatter_full(int group, const Tensor& whole, const std::vector<Tensor>& own) const;
  // All f32 or f64 (master) weights of a group. Collective if sharded in bf16.
  Tensor whole_weights(int group, bool wanted = true) const;
  void set_weights(int group, const Tensor& whole);
  // Indices into spans() of the ranges of a group, in their order.
  std::vector<size_t> spans_of(int group) const;

 private:
  struct Bucket {
    int group = 0;
    int64_t begin = 0, length = 0;  // in elements of the group's flat range
    std::vector<size_t> entries;    // store entries that overlap this bucket
    size_t missing = 0;             // of those, pending: not final yet in this step
  };
  // Where a span or a shard is.
  struct Place {
    int group = 0;
    int64_t begin = 0;  // in elements of the group's flat range
  };

  void added(const Tensor& leaf) override;
  void cut_into_buckets();
  void sort_by_last_parameter();
  void shard();
  void cut_into_spans(const optim::ParameterSpan& shard, const Place& place);
  bool has_hidden_matrices(const Bucket& bucket) const;
  void start_ready();
  void start(const Bucket& bucket);
  int64_t own_begin(const Bucket& bucket) const;  // of this rank's shard, in elements of the group's flat range
  Tensor own_part(const Tensor& flat, const Bucket& bucket) const;

  Communicator& communicator_;
  nn::ParameterStore& store_;
  bool sharded_;
  std::vector<EntryOptions> options_;  // of each entry
  std::vector<Bucket> buckets_;        // in the order in which they are issued
  size_t next_ = 0;                    // the first bucket that is not issued yet in this step
  std::vector<optim::ParameterSpan> shards_, spans_;
  std::vector<Place> places_;                    // of spans_
  std::map<const void*, size_t> entry_of_;       // store entry by the address of its gradient
  std::vector<std::vector<size_t>> buckets_of_;  // the buckets that an entry overlaps
  std::vector<int64_t> uses_, uses_now_;         // of an entry in one backward: learned, and counted in this one
  bool learned_ = false;
  size_t left_early_ = 0;
};

}  // namespace heed::comm
