// Tensors between ranks: in place, on the device they are on, while other work goes on.
//
// start_…() gives the work away and returns; wait() makes all that was started since the last wait() complete: on the
// CPU it returns then, on CUDA work that is queued afterwards sees the results. Until then the values must not be
// touched. All ranks start the same things in the same order, with tensors of the same size and dtype. Sums are made in
// the tensors' own dtype (f32 or f64) and are the same bits on all ranks.
#pragma once

#include <memory>

#include "autograd/core/tensor_ref.hpp"
#include "train/comm/ranks.hpp"

namespace heed::comm {

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Ranks& ranks() const { return ranks_; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

  // Each rank gets the sum over the ranks.
  void start_all_reduce(const TensorRef& values);
  // values are size() parts of equal length: rank r gets the sum of part r there; its other parts hold anything.
  void start_reduce_scatter(const TensorRef& values);
  // values are size() parts of equal length: part r goes from rank r to all. Any dtype.
  void start_all_gather(const TensorRef& values);
  // From the root to all. Any dtype.
  void start_broadcast(const TensorRef& values, int root);
  void wait();
  // To be called now and then while work was started: MPI goes on only when it is called.
  virtual void progress() {}

  // Seconds that wait() has taken, on the CPU: communication that other work did not hide.
  double waited_seconds() const { return waited_seconds_; }

 protected:
  explicit Communicator(Ranks& ranks) : ranks_(ranks) {}

 private:
  virtual void all_reduce(const TensorRef& values) = 0;
  virtual void reduce_scatter(const TensorRef& values) = 0;
  virtual void all_gather(const TensorRef& values) = 0;
  virtual void broadcast(const TensorRef& values, int root) = 0;
  virtual void finish() = 0;

  Ranks& ranks_;
  int64_t pending_ = 0;
  double waited_seconds_ = 0;
};

// For the tensors of a device. Throws CommunicationError where these ranks have none for it: ranks without MPI on the
// CPU, heed without NCCL on CUDA.
std::unique_ptr<Communicator> make_communicator(Ranks& ranks, Device device);

}  // namespace heed::comm
