// One training step as CUDA work during which the host does not wait: two copies from one pinned buffer send the step
// state (StepState) and the batch to the device, and one copy returns loss and gradient norm. The first step
// launches its kernels one by one; the second captures them as a CUDA graph, and from then on each step replays the
// graph.
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

struct CudaStepOptions {
  int64_t rows = 0;       // rows per micro-batch
  int64_t first_row = 0;  // first row of this rank in the global batch
  uint32_t seed = 0;      // train.seed
  bool use_graph = true;  // train.cuda_graph
};

class CudaStep {
 public:
  // The referenced objects must outlive this one.
  CudaStep(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
           optim::Optimizer& optimizer, const CudaStepOptions& options);

  // Launches a step on the device. numbers: the part of the step state that the host sets. The batches have equal
  // shapes, the same in each call.
  void start(const optim::StepState& numbers, const std::vector<data::Batch>& batches);
  // Waits for the step and returns its state. If is_finite is 0, no parameter has changed.
  optim::StepState finish();
  // Drops the captured CUDA graph and frees its memory, for work that runs out of memory; the graph is captured again
  // two steps later. Returns false if none was captured.
  bool reset_graph();

 private:
  void stage(const optim::StepState& numbers, const std::vector<data::Batch>& batches);
  void run();
  void run_micro_batch(int64_t index);
  void add_over_ranks(double* first, int64_t count);
  void close();
  optim::StepState* numbers() const { return static_cast<optim::StepState*>(numbers_.ref().data); }

  const nn::Gpt& model_;
  comm::GradBuckets& buckets_;
  comm::Communicator& communicator_;
  optim::Optimizer& optimizer_;
  CudaStepOptions options_;
  int64_t micro_batches_ = 0;
  Shape batch_shape_;
  std::optional<cuda::PinnedBuffer> pinned_;
  Tensor numbers_, tokens_;  // on the device: StepState; inputs and targets of each micro-batch, alternating
  std::unique_ptr<cuda::Graph> graph_;
  int64_t started_ = 0;
};

}  // namespace heed::train
