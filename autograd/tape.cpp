#include "autograd/tape.hpp"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "autograd/anomaly.hpp"
#include "autograd/core/accumulate.hpp"
#include "autograd/core/device.hpp"
#include "autograd/node.hpp"
#include "autograd/tensor_impl.hpp"

namespace heed {
namespace {

std::atomic<int64_t> node_count = 0;
std::atomic<uint64_t> next_sequence = 0;
thread_local bool grad_mode = true;
thread_local WorkObserver* current_work_observer = nullptr;
thread_local GradientObserver* gradient_observer = nullptr;
thread_local std::vector<Tensor>* to_free = nullptr;  // set while Node::free() runs

void notify(Work::Kind kind, const char* name, const Tensor& result, const std::vector<Tensor>& inputs) {
  if (current_work_observer != nullptr) current_work_observer->done({kind, name, &result, &inputs});
}

}  // namespace

void set_work_observer(WorkObserver* observer) { current_work_observer = observer; }
void set_gradient_observer(GradientObserver* observer) { gradient_observer = observer; }
WorkObserver* work_observer() { return current_work_observer; }
void work_done(const char* name) {
  if (current_work_observer != nullptr) current_work_observer->done({.name = name});
}

GradModeGuard::GradModeGuard(bool on) : before_(grad_mode) { grad_mode = on; }
GradModeGuard::~GradModeGuard() { grad_mode = before_; }
bool grad_enabled() { return grad_mode; }
int64_t live_nodes() { return node_count; }

Node::Node(const char* name_, std::vector<Tensor> inputs_, Backward backward_)
    : name(name_), sequence(next_sequence++), inputs(std::move(inputs_)), backward(std::move(backward_)) {
  if (detect_anomaly()) scope = current_scope();
  ++node_count;
}

Node::~Node() {
  free();
  --node_count;
}

void Node::free() {
  freed = true;
  // The tensors held here may be the last owners of other nodes: collect these in one list and free them in a loop.
  if (to_free != nullptr) {
    std::move(inputs.begin(), inputs.end(), std::back_inserter(*to_free));
    inputs.clear();
    backward = nullptr;
    return;
  }
  std::vector<Tensor> owned = std::move(inputs);
  inputs.clear();
  to_free = &owned;
  backward = nullptr;
  while (!owned.empty()) {
    const Tensor last = std::move(owned.back());
    owned.pop_back();
  }
  to_free = nullptr;
}

// Connects tensor handles and nodes: the only code with access to the internals of both.
class Tape {
 public:
  static Tensor attach(const char* name, Tensor result, std::vector<Tensor> inputs, Backward backward) {
    result.impl_->node = std::make_shared<Node>(name, std::move(inputs), std::move(backward));
    return result;
  }
  // The handle of an input that a node keeps. A leaf is kept itself, because it holds its gradient. Of an operation's
  // result only the graph position is kept, so that its elements live only as long as a backward function captures
  // them.
  static Tensor linked(const Tensor& input) {
    if (!input || !input.requires_grad()) return Tensor();
    if (input.impl_->node == nullptr) return input;
    auto impl = std::make_shared<Tensor::Impl>();
    impl->device = input.impl_->device;
    impl->shape = input.impl_->shape;
    impl->dtype = input.impl_->dtype;
    impl->node = input.impl_->node;
    return Tensor(std::move(impl));
  }
  static Tensor take(Output&& output) { return std::move(output.tensor_); }
  // Accepts an empty handle: an optional input that was not given.
  static std::shared_ptr<Node> node_of(const Tensor& tensor) { return tensor ? tensor.impl_->node : nullptr; }
  static Tensor& gradient_slot(const Tensor& tensor) {
    if (tensor.impl_->node != nullptr) return tensor.impl_->node->grad;
    tensor.impl_->zero_stale_grad();
    return tensor.impl_->grad;
  }
  // The stale gradient of a leaf (Tensor::reset_grad()), which a kernel then overwrites; nullptr if there is none of
  // this dtype.
  static Tensor* take_stale_gradient(const Tensor& tensor, DType dtype) {
    Tensor::Impl& impl = *tensor.impl_;
    if (!impl.grad_is_stale || impl.grad.dtype() != dtype) return nullptr;
    impl.grad_is_stale = false;
    return &impl.grad;
  }
};

namespace {

bool wants_gradient(const std::vector<Tensor>& inputs) {
  return grad_enabled() &&
         std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) { return input.requires_grad(); });
}

// What a node keeps of its inputs: their elements only in anomaly mode, whose reports need them.
std::vector<Tensor> linked(std::vector<Tensor> inputs) {
  if (!detect_anomaly()) std::transform(inputs.begin(), inputs.end(), inputs.begin(), Tape::linked);
  return inputs;
}

}  // namespace

Tensor record(const char* name, Output output, std::vector<Tensor> inputs, Backward backward) {
  Tensor result = Tape::take(std::move(output));
  if (detect_anomaly()) require_finite(name, current_scope(), "result", result, inputs);
  notify(Work::Kind::forward, name, result, inputs);
  if (!wants_gradient(inputs)) return result;
  return Tape::attach(name, std::move(result), linked(std::move(inputs)), std::move(backward));
}

namespace {

void add_into(Tensor& slot, const Tensor& gradient, bool in_place) {
  if (in_place) {
    HEED_DISPATCH(slot.device(), accumulate, slot.ref(), gradient);
  } else {
    Tensor sum = empty(slot.shape(), slot.dtype(), slot.device());
    HEED_DISPATCH(slot.device(), add, sum.ref(), slot, gradient);
    slot = std::move(sum);
  }
}

// The gradients of one node's inputs during its backward.
class NodeGradients final : public Gradients {
 public:
  explicit NodeGradients(const Node& node) : node_(node) {}

  bool needed(size_t input) const override { return node_.inputs.at(input).requires_grad(); }

  TensorRef fresh(size_t input) override {
    if (!needed(input)) return {};
    return fresh(node_.inputs.at(input), node_.inputs.at(input).dtype());
  }
  GradientSink sink(size_t input, const SinkOptions& options) override {
    if (!needed(input)) return {};
    const Tensor& tensor = node_.inputs.at(input);
    if (options.reuse != nullptr && may_reuse(tensor, *options.reuse)) return reuse(tensor, *options.reuse);
    return sink(tensor, options.accumulation_dtype ? accumulation_dtype(tensor.dtype()) : tensor.dtype());
  }

  void alias(size_t input, const Tensor& gradient) override {
    if (!needed(input)) return;
    const Tensor& tensor = node_.inputs.at(input);
    Tensor& slot = Tape::gradient_slot(tensor);
    const bool is_leaf = Tape::node_of(tensor) == nullptr;
    if (!slot && !is_leaf && gradient.dtype() != tensor.dtype()) {  // from recompute(): f32 for a bf16 parameter
      slot = zeros(tensor.shape(), tensor.dtype(), tensor.device());
      created_.push_back(&slot);
    }
    if (slot) {
      pending_.emplace_back(&slot, gradient);
    } else {
      slot = is_leaf ? gradient.clone() : gradient;
      created_.push_back(&slot);
    }
  }

  // After an error: drops the gradients that were begun here and not finished, so that no caller uses them.
  void abandon() {
    for (Tensor* slot : created_) *slot = Tensor();
    for (const Tensor& leaf : overwritten_) leaf.reset_grad();
  }

  void finish() {
    if (detect_anomaly()) {
      for (const Tensor& gradient : written_) {
        require_finite(node_.name, node_.scope, "gradient", gradient, node_.inputs);
      }
    }
    written_.clear();
    for (auto& [slot, gradient] : pending_) add_into(*slot, gradient, is_leaf_slot(slot) || slot->unique());
    pending_.clear();
  }

 private:
  TensorRef fresh(const Tensor& tensor, DType dtype) {
    Tensor& slot = Tape::gradient_slot(tensor);
    Tensor gradient = empty(tensor.shape(), dtype, tensor.device());
    written_.push_back(gradient);
    const bool may_be_the_gradient = dtype == tensor.dtype() || Tape::node_of(tensor) == nullptr;
    if (!slot) {
      // The gradient of an intermediate tensor has the dtype of the tensor.
      slot = may_be_the_gradient ? gradient : zeros(tensor.shape(), tensor.dtype(), tensor.device());
      opened_.push_back(&slot);
      created_.push_back(&slot);
      if (may_be_the_gradient) return gradient.ref();
    }
    pending_.emplace_back(&slot, gradient);
    return gradient.ref();
  }

  // Anomaly reports need the elements of the inputs.
  static bool may_reuse(const Tensor& tensor, const Tensor& saved) {
    return !Tape::gradient_slot(tensor) && saved.unique() && Tape::node_of(tensor) != nullptr && !detect_anomaly();
  }
  GradientSink reuse(const Tensor& tensor, const Tensor& saved) {
    Tensor& slot = Tape::gradient_slot(tensor);
    slot = saved.detach();
    opened_.push_back(&slot);
    created_.push_back(&slot);
    return {slot.ref(), false};
  }

  GradientSink sink(const Tensor& tensor, DType dtype) {
    if (Tensor* stale = Tape::take_stale_gradient(tensor, dtype)) {
      overwritten_.push_back(tensor);
      opened_.push_back(stale);
      written_.push_back(stale->detach());
      return {stale->ref(), false};
    }
    Tensor& slot = Tape::gradient_slot(tensor);
    const bool opened_here = std::find(opened_.begin(), opened_.end(), &slot) != opened_.end();
    if (!slot || slot.dtype() != dtype || opened_here) return {fresh(tensor, dtype), false};
    // Copy a shared gradient now instead of adding to it later: in bf16 that would round once or twice, depending on
    // which other handles exist.
    if (!may_add_in_place(tensor, slot)) slot = slot.clone();
    opened_.push_back(&slot);
    written_.push_back(slot.detach());
    return {slot.ref(), true};
  }

  // A leaf's gradient is accumulated in place, whatever other handles it has; an intermediate gradient may be shared by
  // alias().
  static bool may_add_in_place(const Tensor& tensor, const Tensor& slot) {
    return Tape::node_of(tensor) == nullptr || slot.unique();
  }
  bool is_leaf_slot(const Tensor* slot) const {
    return std::any_of(node_.inputs.begin(), node_.inputs.end(), [&](const Tensor& input) {
      return input && &Tape::gradient_slot(input) == slot && Tape::node_of(input) == nullptr;
    });
  }

  const Node& node_;
  std::vector<Tensor*> created_;     // slots that were empty before
  std::vector<Tensor> overwritten_;  // leaves whose gradients were stale before
  std::vector<Tensor*> opened_;      // slots that this node's kernel writes or accumulates into directly
  std::vector<std::pair<Tensor*, Tensor>> pending_;
  std::vector<Tensor> written_;  // for anomaly mode
};

std::vector<std::shared_ptr<Node>> nodes_in_reverse_order(const std::shared_ptr<Node>& root) {
  std::vector<std::shared_ptr<Node>> nodes{root};
  std::unordered_set<const Node*> seen{root.get()};
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::shared_ptr<Node> node = nodes[i];
    require<GraphError>(!node->freed, "backward: the graph of '{}' was freed by an earlier backward", node->name);
    for (const Tensor& input : node->inputs) {
      const std::shared_ptr<Node> below = Tape::node_of(input);
      if (below != nullptr && seen.insert(below.get()).second) nodes.push_back(below);
    }
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a->sequence > b->sequence; });
  return nodes;
}

void notify_leaves(const Node& node) {
  if (gradient_observer == nullptr) return;
  for (const Tensor& input : node.inputs) {
    if (input && input.requires_grad() && Tape::node_of(input) == nullptr) gradient_observer->added(input);
  }
}

void run_node(Node& node) {
  const Tensor dy = std::move(node.grad);
  node.grad = Tensor();
  if (!dy) return;
  NodeGradients gradients(node);
  try {
    node.backward(dy, gradients);
    gradients.finish();
    notify(node.kind, node.name, dy, node.inputs);
    notify_leaves(node);
  } catch (...) {
    gradients.abandon();
    throw;
  }
}

// After an error: partial sums must not be added to gradients of a later backward through the same nodes.
void discard(const std::vector<std::shared_ptr<Node>>& nodes) {
  for (const std::shared_ptr<Node>& node : nodes) {
    if (node == nullptr) continue;
    node->grad = Tensor();
    node->free();
  }
}

// Runs backward from `root`; dresult is the gradient of its result.
void run_from(const std::shared_ptr<Node>& root, const Tensor& dresult) {
  const NoGradGuard no_grad;
  const OutsideNameScopes outside;
  std::vector<std::shared_ptr<Node>> nodes = nodes_in_reverse_order(root);
  root->grad = dresult;
  try {
    for (std::shared_ptr<Node>& node : nodes) {
      run_node(*node);
      node->free();
      node.reset();
    }
  } catch (...) {
    discard(nodes);
    throw;
  }
}

}  // namespace

void backward(const Tensor& loss) {
  require<ShapeError>(loss && loss.numel() == 1, "backward() without a cotangent needs a scalar");
  backward(loss, full(loss.shape(), loss.dtype(), 1.0, loss.device()));
}

void backward(const Tensor& result, const Tensor& dresult) {
  require<GraphError>(result.requires_grad(), "backward: nothing below the result requires a gradient");
  require<ShapeError>(dresult.shape() == result.shape(), "backward: a gradient of shape {} for a result of shape {}",
                      dresult.shape(), result.shape());
  require<DTypeError>(dresult.dtype() == result.dtype(), "backward: a {} gradient for a {} result", dresult.dtype(),
                      result.dtype());
  require_one_device("backward", {{"the result", result}, {"its gradient", dresult}});
  const std::shared_ptr<Node> root = Tape::node_of(result);
  Tensor& slot = Tape::gradient_slot(result);
  if (root == nullptr) {
    slot ? add_into(slot, dresult, true) : void(slot = dresult.clone());
    return;
  }
  run_from(root, dresult);
}

Tensor record_and_backward(const char* name, Output output, std::vector<Tensor> inputs, Backward forward_and_backward) {
  require<GraphError>(wants_gradient(inputs), "backward: nothing below the result requires a gradient");
  const Tensor result = Tape::take(std::move(output));
  const auto root = std::make_shared<Node>(name, linked(std::move(inputs)), nullptr);
  root->kind = Work::Kind::both;
  root->backward = [both = std::move(forward_and_backward), result, node = root.get()](const Tensor& dresult,
                                                                                       Gradients& gradients) {
    both(dresult, gradients);
    if (detect_anomaly()) require_finite(node->name, node->scope, "result", result, node->inputs);
  };
  run_from(root, full(result.shape(), result.dtype(), 1.0, result.device()));
  return result;
}

Tensor recompute(const Recomputed& fn, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return fn(inputs);
  std::vector<Tensor> values;
  for (const Tensor& input : inputs) values.push_back(input.detach());
  Tensor result;
  {
    const NoGradGuard no_grad;
    result = fn(values).detach();
  }
  // Recorded even if no input requires a gradient: parameters inside fn may require one.
  return Tape::attach("recompute", std::move(result), inputs, [fn, values](const Tensor& dy, Gradients& gradients) {
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < values.size(); ++i) {
      leaves.push_back(values[i].detach());
      if (gradients.needed(i)) leaves.back().set_requires_grad(true);
    }
    Tensor again;
    {
      const GradModeGuard record_again(true);
      again = fn(leaves);
    }
    if (again.requires_grad()) backward(again, dy);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].grad()) gradients.alias(i, leaves[i].grad());
    }
  });
}

}  // namespace heed
