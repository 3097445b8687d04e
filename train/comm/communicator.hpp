// Collectives on tensors: in place, on the device of the tensor, and overlapped with other work.
//
// start_…() issues a nonblocking collective. wait() completes all collectives issued since the last wait(): on the CPU
// it blocks until they are done, on CUDA it makes work that is queued afterwards wait for them. Until then the values
// must not be read or written. All ranks issue the same collectives in the same order, on tensors of the same size and
// dtype. Sums are computed in the tensors' own dtype (f32 or f64) and are bitwise equal on all ranks.
#pragma once

#include "autograd/core/tensor_ref.hpp"
#include "train/comm/process_group.hpp"

namespace heed::comm {

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ProcessGroup& ranks() const { return ranks_; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

  // All-reduce: each rank gets the sum over the ranks.
  void start_all_reduce(const TensorRef& values);
  // Reduce-scatter: values are size() shards of equal length, and rank r gets the sum of shard r in place. Its other
  // shards are undefined afterwards.
  void start_reduce_scatter(const TensorRef& values);
  // All-gather: values are size() shards of equal length, and rank r sends shard r to all ranks. Any dtype.
  void start_all_gather(const TensorRef& values);
  // Broadcast from rank `root` to all ranks. Any dtype.
  void start_broadcast(const TensorRef& values, int root);
  void wait();
  // Call this regularly while collectives are pending: MPI makes progress only inside MPI calls.
  virtual void progress() {}

  // CPU: seconds spent in wait(), that is, communication that did not overlap with other work.
  double waited_seconds() const { return waited_seconds_; }

 protected:
  explicit Communicator(ProcessGroup& ranks) : ranks_(ranks) {}

 private:
  virtual void all_reduce(const TensorRef& values) = 0;
  virtual void reduce_scatter(const TensorRef& values) = 0;
  virtual void all_gather(const TensorRef& values) = 0;
  virtual void broadcast(const TensorRef& values, int root) = 0;
  virtual void finish() = 0;

  ProcessGroup& ranks_;
  int64_t pending_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace heed::comm
