#include "train/trainer/cuda_step.hpp"

#include <cstddef>
#include <cstring>

#include "autograd/tape.hpp"
#include "optim/grad_clip.hpp"

namespace heed::train {
namespace {

constexpr int64_t kNumbersBytes = sizeof(optim::StepState);

}  // namespace

CudaStep::CudaStep(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
                   optim::Optimizer& optimizer, const CudaStepOptions& options)
    : model_(model), buckets_(buckets), communicator_(communicator), optimizer_(optimizer), options_(options) {}

// The pinned memory may be overwritten: finish() has waited for the copies of the previous step.
void CudaStep::stage(const optim::StepState& numbers, const std::vector<data::Batch>& batches) {
  const Shape shape{batches.at(0).rows, batches[0].seq_len};
  if (!pinned_) {
    batch_shape_ = shape;
    micro_batches_ = static_cast<int64_t>(batches.size());
    tokens_ = empty({2 * micro_batches_ * shape.numel()}, DType::i32, Device::cuda, MemoryCategory::workspace);
    numbers_ = empty({kNumbersBytes / size_bytes(DType::f64)}, DType::f64, Device::cuda, MemoryCategory::workspace);
    pinned_.emplace(kNumbersBytes + tokens_.numel() * size_bytes(DType::i32));
  }
  char* to = static_cast<char*>(pinned_->data());
  const auto put = [&](const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(&numbers, kNumbersBytes);
  for (const data::Batch& batch : batches) {
    require<ShapeError>(Shape({batch.rows, batch.seq_len}) == batch_shape_, "a batch of ({}, {}) among those of {}",
                        batch.rows, batch.seq_len, batch_shape_);
    put(batch.inputs.data(), batch.inputs.size() * sizeof(int32_t));
    put(batch.targets.data(), batch.targets.size() * sizeof(int32_t));
  }
}

void CudaStep::start(const optim::StepState& numbers, const std::vector<data::Batch>& batches) {
  stage(numbers, batches);
  // Work observers and anomaly mode must observe each operation, which a graph replay does not allow.
  const bool by_graph = options_.use_graph && started_ > 0 && !detect_anomaly() && !has_work_observer();
  if (by_graph && graph_ == nullptr) {
    auto graph = std::make_unique<cuda::Graph>();
    graph->record([&] { run(); });
    graph_ = std::move(graph);
  }
  by_graph ? graph_->replay() : run();
  optimizer_.restore_steps(numbers.optimizer_step);
  ++started_;
}

optim::StepState CudaStep::finish() {
  synchronize(Device::cuda);
  optim::StepState numbers;
  std::memcpy(&numbers, pinned_->data(), kNumbersBytes);
  // The optimizer kernels have changed nothing then, so the step is not counted.
  if (numbers.is_finite == 0) optimizer_.restore_steps(numbers.optimizer_step - 1);
  return numbers;
}

bool CudaStep::reset_graph() {
  if (graph_ == nullptr) return false;
  synchronize(Device::cuda);
  graph_.reset();
  started_ = 0;
  release_cached_memory(Device::cuda);
  return true;
}

// Capturable: everything between the copies to and from the device reads the step state from device memory.
void CudaStep::run() {
  pinned_->copy_to_device(numbers_.ref().data, 0, kNumbersBytes);
  pinned_->copy_to_device(tokens_.ref().data, kNumbersBytes, pinned_->bytes() - kNumbersBytes);
  static_assert(offsetof(optim::StepState, must_stop) ==
                offsetof(optim::StepState, targets) + sizeof(optim::StepState::targets));
  add_over_ranks(&numbers()->targets, 2);
  work_done("batch");
  model_.parameters().zero_gradients();
  work_done("zero gradients");
  for (int64_t index = 0; index < micro_batches_; ++index) run_micro_batch(index);
  buckets_.flush();
  add_over_ranks(&numbers()->loss, 1);
  if (communicator_.size() > 1) work_done("sums over ranks");
  close();
  pinned_->copy_from_device(0, numbers_.ref().data, kNumbersBytes);
}

void CudaStep::run_micro_batch(int64_t index) {
  const int64_t tokens = batch_shape_.numel();
  const nn::ForwardContext context{.training = true,
                                   .seed = options_.seed,
                                   .device_update = &numbers()->update,
                                   .first_row = options_.first_row + index * options_.rows};
  const Tensor loss = model_.loss(tokens_.slice(2 * index * tokens, batch_shape_),
                                  tokens_.slice((2 * index + 1) * tokens, batch_shape_), context, &numbers()->targets);
  if (index + 1 == micro_batches_) {
    buckets_.last_backward([&] { backward(loss); });
  } else {
    backward(loss);
  }
  cuda::add_loss(heed::context(Device::cuda), {.numbers = numbers(), .loss = loss});
}

// The wait also completes collectives that were started before.
void CudaStep::add_over_ranks(double* first, int64_t count) {
  communicator_.start_all_reduce({.data = first, .shape = {count}, .dtype = DType::f64, .device = Device::cuda});
  communicator_.wait();
}

// Ends the step: gradient norm, optimizer step, exchange of the weights.
void CudaStep::close() {
  Context& context = heed::context(Device::cuda);
  const Tensor sums = optim::squares_of_gradients(buckets_.spans());
  if (buckets_.sharded()) {
    communicator_.start_all_reduce(sums.ref());
    communicator_.wait();
  }
  cuda::finalize_gradients(context, {.numbers = numbers(), .sums = sums});
  work_done("gradient norm");
  optimizer_.step(numbers());
  buckets_.all_gather_parameters();
  work_done("optimizer");
}

}  // namespace heed::train
