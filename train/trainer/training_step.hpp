// One training step: forward and backward of each micro-batch, gradient norm, optimizer step. The
// gradients, the loss and the counts of the step are summed over the ranks. The step's scalars (optim::StepState) and
// tokens are in the memory of the device, and the kernels read them there. On CUDA the host therefore does not wait
// during the step: one copy from pinned memory sends scalars and tokens, one returns the scalars. The first step
// launches its kernels one by one; the second captures them as a CUDA graph, and from then on each step replays the
// graph.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/tape.hpp"
#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "optim/optimizer.hpp"
#include "train/comm/grad_bucket.hpp"

namespace heed::train {

struct TrainingStepOptions {
  int64_t micro_batches = 1;
  int64_t rows = 0, seq_len = 0;  // of a micro-batch
  int64_t first_row = 0;          // first row of this rank in the global batch
  uint32_t seed = 0;              // train.seed
  bool use_graph = true;          // on CUDA; train.cuda_graph
};

class TrainingStep {
 public:
  // The referenced objects must outlive this one.
  TrainingStep(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
               optim::Optimizer& optimizer, const TrainingStepOptions& options);

  // Runs a step; on CUDA it is queued. state: the part that the host writes. Without batches (state.failed must be 1)
  // this rank takes part with a batch that has no targets.
  void start(const optim::StepState& state, const std::vector<data::Batch>& batches);
  // Waits for the step and returns its state. If is_valid is 0, no parameter has changed.
  optim::StepState finish();
  // Runs forward and backward of this rank's micro-batches once more, after a step that was not valid.
  void repeat_gradients();
  // Drops the captured CUDA graph and frees its memory, for work that runs out of memory; the graph is captured again
  // two steps later. Returns false if none was captured.
  bool reset_graph();

 private:
  // Runs forward and backward of the last micro-batch.
  using RunLast = std::function<void(const std::function<void()>& forward_and_backward)>;

  Device device() const { return model_.parameters().device(); }
  optim::StepState* state() const { return static_cast<optim::StepState*>(memory_.ref().data); }
  Tensor tokens(int64_t index, bool are_targets) const;
  void stage(const optim::StepState& state, const std::vector<data::Batch>& batches);
  void run();
  void accumulate_gradients(const RunLast& run_last);
  void add_over_ranks(double* first, int64_t count);
  void update_weights();

  const nn::Gpt& model_;
  comm::GradBuckets& buckets_;
  comm::Communicator& communicator_;
  optim::Optimizer& optimizer_;
  TrainingStepOptions options_;
  Shape shape_;    // of a micro-batch
  Tensor memory_;  // on the device: the state, then inputs and targets of each micro-batch, alternating
  std::optional<cuda::PinnedBuffer> pinned_;  // on CUDA: the host's copy of memory_
  std::shared_ptr<const void> graph_events_;  // that graph_ records, of the observer during its capture
  std::unique_ptr<cuda::Graph> graph_;
  int64_t started_ = 0;
};

}  // namespace heed::train
