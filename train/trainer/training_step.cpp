#include "train/trainer/training_step.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "autograd/tape.hpp"
#include "optim/grad_clip.hpp"

namespace heed::train {
namespace {

using optim::StepState;

// The space of the state, in tokens: a multiple of 256 bytes, as tensors are aligned.
constexpr int64_t kStateTokens = (sizeof(StepState) + 255) / 256 * 256 / sizeof(int32_t);

}  // namespace

TrainingStep::TrainingStep(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
                           optim::Optimizer& optimizer, const TrainingStepOptions& options)
    : model_(model),
      buckets_(buckets),
      communicator_(communicator),
      optimizer_(optimizer),
      options_(options),
      shape_({options.rows, options.seq_len}) {
  const int64_t size = kStateTokens + 2 * options_.micro_batches * shape_.numel();
  memory_ = empty({size}, DType::i32, device(), MemoryCategory::workspace);
  if (device() == Device::cuda) pinned_.emplace(size * size_bytes(DType::i32));
}

Tensor TrainingStep::tokens(int64_t index, bool are_targets) const {
  return memory_.slice(kStateTokens + (2 * index + (are_targets ? 1 : 0)) * shape_.numel(), shape_);
}

// The pinned memory may be overwritten: finish() has waited for the copies of the previous step.
void TrainingStep::stage(const StepState& state, const std::vector<data::Batch>& batches) {
  auto* const to = static_cast<int32_t*>(pinned_ ? pinned_->data() : memory_.ref().data);
  std::memcpy(to, &state, sizeof state);
  int32_t* tokens = to + kStateTokens;
  const auto put = [&](const std::vector<int32_t>& values) {
    tokens = std::copy(values.begin(), values.end(), tokens);
  };
  for (const data::Batch& batch : batches) {
    require<ShapeError>(Shape({batch.rows, batch.seq_len}) == shape_, "a batch has shape ({}, {}), it must be {}",
                        batch.rows, batch.seq_len, shape_);
    put(batch.inputs);
    put(batch.targets);
  }
  if (!batches.empty()) return;
  for (int64_t i = 0; i < options_.micro_batches; ++i) {
    tokens = std::fill_n(tokens, shape_.numel(), 0);
    tokens = std::fill_n(tokens, shape_.numel(), data::kIgnoreTarget);
  }
}

void TrainingStep::start(const StepState& state, const std::vector<data::Batch>& batches) {
  stage(state, batches);
  // Anomaly mode and most work observers must observe each operation, which a graph replay does not allow.
  const WorkObserver* const observer = work_observer();
  const std::shared_ptr<const void> events = observer == nullptr ? nullptr : observer->captured_events();
  const bool may_capture = !detect_anomaly() && (observer == nullptr || events != nullptr);
  const bool by_graph = device() == Device::cuda && options_.use_graph && started_ > 0 && may_capture;
  if (by_graph && graph_events_ != events) graph_.reset();  // it records the events of another observer
  if (by_graph && graph_ == nullptr) {
    auto graph = std::make_unique<cuda::Graph>();
    graph->record([&] { run(); });
    graph_ = std::move(graph);
    graph_events_ = events;
  }
  by_graph ? graph_->replay() : run();
  optimizer_.restore_steps(state.optimizer_step);
  ++started_;
}

StepState TrainingStep::finish() {
  synchronize(device());
  StepState state;
  std::memcpy(&state, pinned_ ? pinned_->data() : memory_.ref().data, sizeof state);
  // The optimizer kernels have changed nothing then, so the step is not counted.
  if (state.is_valid == 0) optimizer_.restore_steps(state.optimizer_step - 1);
  return state;
}

bool TrainingStep::reset_graph() {
  if (graph_ == nullptr) return false;
  synchronize(Device::cuda);
  graph_.reset();
  graph_events_.reset();
  started_ = 0;
  release_cached_memory(Device::cuda);
  return true;
}

// Capturable: the host neither waits nor reads what the device has computed.
void TrainingStep::run() {
  if (pinned_) pinned_->copy_to_device(memory_.ref().data, 0, pinned_->bytes());
  static_assert(offsetof(StepState, failed) == offsetof(StepState, targets) + 2 * sizeof(double));
  add_over_ranks(&state()->targets, 3);
  work_done("batch");
  accumulate_gradients([&](const auto& last) { buckets_.last_backward(last); });
  buckets_.flush();
  add_over_ranks(&state()->loss, 1);
  if (communicator_.size() > 1) work_done("sums over ranks");
  update_weights();
  if (pinned_) pinned_->copy_from_device(0, memory_.ref().data, sizeof(StepState));
}

void TrainingStep::accumulate_gradients(const RunLast& run_last) {
  model_.parameters().zero_gradients();
  for (int64_t index = 0; index < options_.micro_batches; ++index) {
    const nn::ForwardContext context{.training = true,
                                     .seed = options_.seed,
                                     .step = DeviceScalar<uint64_t>::at(&state()->step),
                                     .first_row = options_.first_row + index * options_.rows};
    const auto run_one = [&] {
      const Tensor loss = model_.loss_and_backward(tokens(index, false), tokens(index, true), context,
                                                   DeviceScalar<double>::at(&state()->targets));
      optim::add_loss(state(), loss);
    };
    index + 1 < options_.micro_batches ? run_one() : run_last(run_one);
  }
}

void TrainingStep::repeat_gradients() {
  accumulate_gradients([](const auto& last) { last(); });
}

// The wait also completes collectives that were started before.
void TrainingStep::add_over_ranks(double* first, int64_t count) {
  communicator_.start_all_reduce({.data = first, .shape = {count}, .dtype = DType::f64, .device = device()});
  communicator_.wait();
}

void TrainingStep::update_weights() {
  const Tensor sums = optim::squares_of_gradients(buckets_.shards());
  if (buckets_.sharded()) {
    communicator_.start_all_reduce(sums.ref());
    communicator_.wait();
  }
  optim::compute_clipping(state(), sums);
  work_done("gradient norm");
  optimizer_.step(state());
  buckets_.all_gather_parameters();
  work_done("optimizer");
}

}  // namespace heed::train
