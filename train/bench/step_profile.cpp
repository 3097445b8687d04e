#include "train/bench/step_profile.hpp"

#include <algorithm>
#include <string_view>

#include "autograd/core/context.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

double flops(std::string_view name, const Work& work) {
  const std::vector<Tensor>& inputs = *work.inputs;
  double forward = 0;
  if (name.starts_with("linear")) {
    forward = 2.0 * static_cast<double>(inputs[0].numel() * inputs[1].shape()[0]);
  } else if (name.starts_with("attention")) {  // 4 B H D for each of T (T + 1) / 2 query-key pairs
    forward = 2.0 * static_cast<double>(work.result->numel() * (work.result->shape()[1] + 1));
  }
  if (work.kind == Work::Kind::both) return 3 * forward;
  return work.kind == Work::Kind::backward ? 2 * forward : forward;
}

double bytes(std::string_view name, const Work& work) {
  const auto size = [](const Tensor& tensor) {
    return static_cast<double>(tensor.numel() * size_bytes(tensor.dtype()));
  };
  double sum = size(*work.result);
  // Forward also writes u or the derivative of GELU; backward reads it, and writes and reads the gradient of u.
  if (name == "linear_gelu") sum *= work.kind == Work::Kind::backward ? 4 : 2;
  if (name == "embedding") return 2 * sum;                           // reads only the table rows that are looked up
  if (name == "add" && work.kind == Work::Kind::backward) return 0;  // the gradient is passed on without a copy
  for (const Tensor& input : *work.inputs) {
    if (!input) continue;
    const int reads = work.kind == Work::Kind::both ? 2 : 1;
    const bool writes_gradient = work.kind != Work::Kind::forward && input.requires_grad();
    sum += size(input) * (reads + (writes_gradient ? 1 : 0));
  }
  return sum;
}

std::string shapes_of(const Work& work) {
  std::string text;
  for (const Tensor& input : *work.inputs) {
    if (input) text += fmt::format("{}{}", text.empty() ? "" : " ", input.shape());
  }
  return text;
}

// RAII: observes the work of this thread.
class Observing {
 public:
  explicit Observing(WorkObserver* observer) { set_work_observer(observer); }
  ~Observing() { set_work_observer(nullptr); }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;
};

}  // namespace

StepProfile::StepProfile(std::map<std::string, double> other_bytes, Device device)
    : other_bytes_(std::move(other_bytes)), device_(device) {
  if (device == Device::cuda) stopwatch_ = std::make_shared<cuda::Stopwatch>();
}

void StepProfile::add(const std::function<void()>& step) {
  const Observing observing(this);
  is_new_ = true;
  synchronize(device_);
  if (stopwatch_) stopwatch_->start();
  last_ = Clock::now();
  step();
  const std::vector<double> laps = stopwatch_ ? stopwatch_->laps() : std::vector<double>();
  for (size_t i = 0; i < work_.size(); ++i) {
    const BenchRow& row = work_[i];
    BenchRow& sum =
        rows_.try_emplace(row.label(), BenchRow{row.operation, row.shapes, row.is_backward, 0}).first->second;
    ++sum.calls;
    sum.seconds += stopwatch_ ? laps[i] : row.seconds;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
  }
  ++steps_;
}

// Replays of a graph do not call this: their work is that of the captured step.
void StepProfile::done(const Work& work) {
  if (is_new_) {
    work_.clear();
    if (stopwatch_) stopwatch_->clear();
    is_new_ = false;
  }
  if (stopwatch_) stopwatch_->lap();
  BenchRow row{.operation = work.name, .is_backward = work.kind == Work::Kind::backward};
  row.seconds = std::chrono::duration<double>(Clock::now() - last_).count();
  if (work.kind == Work::Kind::other) {
    const auto known = other_bytes_.find(row.operation);
    row.bytes = known == other_bytes_.end() ? 0 : known->second;
  } else {
    row.shapes = shapes_of(work);
    row.flops = flops(row.operation, work);
    row.bytes = bytes(row.operation, work);
  }
  work_.push_back(std::move(row));
  last_ = Clock::now();
}

std::vector<BenchRow> StepProfile::rows() const {
  std::vector<BenchRow> means;
  for (const auto& entry : rows_) {
    BenchRow& row = means.emplace_back(entry.second);
    row.calls /= steps_;
    row.seconds /= static_cast<double>(steps_);
    row.flops /= static_cast<double>(steps_);
    row.bytes /= static_cast<double>(steps_);
  }
  std::sort(means.begin(), means.end(), [](const BenchRow& a, const BenchRow& b) { return a.seconds > b.seconds; });
  return means;
}

}  // namespace heed::train
