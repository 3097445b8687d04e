// One update as work of a CUDA device that the host does not wait for in between: the batch and a few numbers go in by
// one copy, the loss and the norm come out by one. The first update is given to the device operation by operation; the
// second is recorded as a graph, and from then on the graph is replayed.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "autograd/core/cuda_backend.hpp"
#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "optim/optimizer.hpp"
#include "train/comm/grad_bucket.hpp"

namespace heed::train {

struct DeviceUpdateOptions {
  int64_t rows = 0;       // per micro-batch
  int64_t first_row = 0;  // of this rank in the global batch
  uint32_t seed = 0;      // train.seed
  bool use_graph = true;  // train.cuda_graph
};

class DeviceUpdate {
 public:
  // All of them live as long as this.
  DeviceUpdate(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
               optim::Optimizer& optimizer, const DeviceUpdateOptions& options);

  // Gives the update to the device. numbers: the part from the host; batches of equal shape, the same in each call.
  void start(const optim::UpdateNumbers& numbers, const std::vector<data::Batch>& batches);
  // Waits for it. Where the result is not finite, no parameter has changed.
  optim::UpdateNumbers finish();
  // Gives the memory of the recording back, for work that finds too little; the next update but one records anew. False
  // where there is none.
  bool forget_recording();

 private:
  void stage(const optim::UpdateNumbers& numbers, const std::vector<data::Batch>& batches);
  void run();
  void run_micro_batch(int64_t index);
  void add_over_ranks(double* first, int64_t count);
  void close();
  optim::UpdateNumbers* numbers() const { return static_cast<optim::UpdateNumbers*>(numbers_.ref().data); }

  const nn::Gpt& model_;
  comm::GradBuckets& buckets_;
  comm::Communicator& communicator_;
  optim::Optimizer& optimizer_;
  DeviceUpdateOptions options_;
  int64_t micro_batches_ = 0;
  Shape batch_shape_;
  std::optional<cuda::PinnedBuffer> pinned_;
  Tensor numbers_, tokens_;  // on the device: UpdateNumbers; inputs and targets of each micro-batch, in turns
  std::unique_ptr<cuda::Graph> graph_;
  int64_t started_ = 0;
};

}  // namespace heed::train
