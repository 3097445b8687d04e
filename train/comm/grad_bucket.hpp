// The gradients of a model on their way through the ranks, and what each rank updates.
//
// The flat gradient buffers are cut into buckets, which are summed over the ranks one by one while the last backward of
// a step still runs. A bucket is ready as soon as the gradients of all its parameters are final; how often backward
// adds to the gradient of a parameter is learned in the first step, which sums all buckets at its end. Collectives pair
// up by the order in which each rank starts them, and ranks may differ in what they use. So buckets start in the order
// of their index on every rank, that of the last parameter of each in backward; a ready one waits for those before it.
// A parameter that a rank does not use counts as zeros there.
//
// Sharded (ZeRO-1: Rajbhandari, Rasley, Ruwase, He 2019, arXiv 1910.02054), each bucket is size() shards of equal
// length, and rank r keeps moments, and in bf16 the f32 weights, of shard r only: it gets the sums of its shards'
// gradients, updates its weights, and hands them to the others.
#pragma once

#include <map>
#include <vector>

#include "autograd/tape.hpp"
#include "nn/parameter_store.hpp"
#include "optim/optimizer.hpp"
#include "train/comm/communicator.hpp"

namespace heed::comm {

class GradBuckets final : private GradientObserver {
 public:
  // Where sharded, the spans of the store are a multiple of span_multiple(size) elements long.
  GradBuckets(Communicator& communicator, nn::ParameterStore& store, bool sharded);
  ~GradBuckets() override = default;
  GradBuckets(const GradBuckets&) = delete;
  GradBuckets& operator=(const GradBuckets&) = delete;

  static int64_t span_multiple(int size) { return int64_t{16} * size; }

  // What this rank updates: whole groups, or its shards.
  const std::vector<optim::ParameterSpan>& spans() const { return spans_; }
  bool sharded() const { return sharded_; }
  size_t count() const { return buckets_.size(); }
  // Of the last update: buckets that left while backward still ran.
  size_t left_early() const { return left_early_; }

  // The last backward of a step, whose buckets may start while it runs. Throws GraphError, with its name, for a
  // parameter that is used more often than in the first step.
  void last_backward(const std::function<void()>& backward);
  // Starts what is left. After it communicator().wait() makes the gradients of spans() the sums over the ranks.
  void start_rest();
  // After the optimizer: all ranks get all weights, and the copies that operations take. Waits.
  void share_weights();

  // A flat tensor as long as group g, of which each rank has in `own` what belongs to its spans of that group, in their
  // order: own[0] itself where not sharded, else gathered bucket by bucket into memory of the CPU, of those ranks that
  // want it; elsewhere no tensor. Collective.
  Tensor whole(int group, const std::vector<Tensor>& own, bool wanted = true) const;
  // The other way: the parts of spans() of group g in a tensor as long as the group.
  void take_own(int group, const Tensor& whole, const std::vector<Tensor>& own) const;
  // The f32 or f64 weights of a group, whole. Collective where sharded in bf16.
  Tensor whole_weights(int group, bool wanted = true) const;
  void set_weights(int group, const Tensor& whole);
  // Spans of spans() that belong to a group, in their order.
  std::vector<size_t> spans_of(int group) const;

 private:
  struct Bucket {
    int group = 0;
    int64_t begin = 0, length = 0;  // elements of the group's span
    std::vector<size_t> entries;    // of the store, with a part in it
    size_t missing = 0;             // of those, gradients that are not final yet in this step
  };

  void added(const Tensor& leaf) override;
  void cut_into_buckets();
  void sort_by_last_parameter();
  void shard();
  void start_ready();
  void start(const Bucket& bucket);
  Tensor own_part(const Tensor& flat, const Bucket& bucket) const;

  Communicator& communicator_;
  nn::ParameterStore& store_;
  bool sharded_;
  std::vector<Bucket> buckets_;  // in the order in which they start
  size_t next_ = 0;              // the first that has not started in this step
  std::vector<optim::ParameterSpan> spans_;
  std::vector<int> span_groups_;
  std::map<const void*, size_t> entry_of_;       // by the gradient's memory
  std::vector<std::vector<size_t>> buckets_of_;  // of an entry
  std::vector<int64_t> uses_, uses_now_;         // of an entry in one backward: learned, and in this one
  bool learned_ = false;
  size_t left_early_ = 0;
};

}  // namespace heed::comm
