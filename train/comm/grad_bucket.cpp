#include "train/comm/grad_bucket.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"
#include "autograd/core/context.hpp"

namespace heed::comm {
namespace {

// Small buckets start early and overlap with backward; large buckets lose less time to latency.
constexpr int64_t kBuckets = 8, kLeast = 1024, kMost = int64_t{8} << 20;  // elements

class ObserverGuard {
 public:
  explicit ObserverGuard(GradientObserver* observer) { set_gradient_observer(observer); }
  ~ObserverGuard() { set_gradient_observer(nullptr); }
  ObserverGuard(const ObserverGuard&) = delete;
  ObserverGuard& operator=(const ObserverGuard&) = delete;
};

}  // namespace

GradBuckets::GradBuckets(Communicator& communicator, nn::ParameterStore& store, bool sharded)
    : communicator_(communicator), store_(store), sharded_(sharded && communicator.size() > 1) {
  cut_into_buckets();
  if (sharded_) {
    shard();
    return;
  }
  for (const nn::ParameterGroup& group : store_.groups()) {
    span_groups_.push_back(static_cast<int>(spans_.size()));
    spans_.push_back({.weights = group.weights, .gradients = group.gradients, .decay = group.decay});
  }
}

void GradBuckets::cut_into_buckets() {
  int64_t total = 0;
  for (const nn::ParameterGroup& group : store_.groups()) total += group.gradients.numel();
  const int64_t length = round_up(std::clamp(total / kBuckets, kLeast, kMost), span_multiple(communicator_.size()));
  for (size_t g = 0; g < store_.groups().size(); ++g) {
    const int64_t end = store_.groups()[g].gradients.numel();
    for (int64_t begin = 0; begin < end; begin += length) {
      Bucket& bucket = buckets_.emplace_back();
      bucket.group = static_cast<int>(g);
      bucket.begin = begin;
      bucket.length = std::min(length, end - begin);
    }
  }
  const auto& entries = store_.entries();
  for (size_t e = 0; e < entries.size(); ++e) {
    entry_of_[entries[e].tensor.grad().ref().data] = e;
    for (Bucket& bucket : buckets_) {
      const int64_t begin = entries[e].offset, end = begin + entries[e].shape.numel();
      if (entries[e].group != bucket.group || begin >= bucket.begin + bucket.length || end <= bucket.begin) continue;
      bucket.entries.push_back(e);
    }
  }
  sort_by_last_parameter();
  buckets_of_.resize(entries.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (const size_t e : buckets_[b].entries) buckets_of_[e].push_back(b);
  }
  uses_.assign(entries.size(), 0);
}

// Backward reaches the parameters in the reverse order of their declaration, across both groups.
void GradBuckets::sort_by_last_parameter() {
  const auto last = [](const Bucket& bucket) {
    return bucket.entries.empty() ? 0 : *std::min_element(bucket.entries.begin(), bucket.entries.end());
  };
  std::stable_sort(buckets_.begin(), buckets_.end(),
                   [&](const Bucket& a, const Bucket& b) { return last(a) > last(b); });
}

Tensor GradBuckets::own_part(const Tensor& flat, const Bucket& bucket) const {
  const int64_t length = bucket.length / communicator_.size();
  return flat.slice(bucket.begin + communicator_.rank() * length, {length});
}

void GradBuckets::shard() {
  for (const Bucket& bucket : buckets_) {
    const nn::ParameterGroup& group = store_.groups()[static_cast<size_t>(bucket.group)];
    Tensor weights = own_part(group.weights, bucket);
    if (group.copies) {  // master weights are kept by the rank that owns the shard
      const Tensor kept = empty(weights.shape(), weights.dtype(), weights.device(), MemoryCategory::parameters);
      copy_elements_to(kept.ref(), weights);
      weights = kept;
    }
    spans_.push_back({.weights = weights, .gradients = own_part(group.gradients, bucket), .decay = group.decay});
    span_groups_.push_back(bucket.group);
  }
  for (size_t g = 0; g < store_.groups().size(); ++g) {
    if (store_.groups()[g].copies) store_.release_weights(static_cast<int>(g));
  }
}

void GradBuckets::last_backward(const std::function<void()>& backward) {
  uses_now_.assign(uses_.size(), 0);
  next_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<size_t>(
        std::count_if(bucket.entries.begin(), bucket.entries.end(), [&](size_t e) { return uses_[e] > 0; }));
  }
  const ObserverGuard observe(this);
  backward();
}

void GradBuckets::added(const Tensor& leaf) {
  communicator_.progress();
  const Tensor gradient = leaf.grad();
  const auto found = entry_of_.find(gradient.ref().data);
  if (found == entry_of_.end()) return;
  const size_t entry = found->second;
  ++uses_now_[entry];
  if (!learned_ || uses_now_[entry] < uses_[entry]) return;
  require<GraphError>(uses_now_[entry] == uses_[entry],
                      "parameter '{}' is used {} times in this backward and was used {} times in the first one: a "
                      "rank must not use a parameter more often than in its first step",
                      store_.entries()[entry].name, uses_now_[entry], uses_[entry]);
  for (const size_t b : buckets_of_[entry]) --buckets_[b].missing;
  start_ready();
}

void GradBuckets::start_ready() {
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) start(buckets_[next_++]);
}

void GradBuckets::start(const Bucket& bucket) {
  const Tensor gradients =
      store_.groups()[static_cast<size_t>(bucket.group)].gradients.slice(bucket.begin, {bucket.length});
  sharded_ ? communicator_.start_reduce_scatter(gradients.ref()) : communicator_.start_all_reduce(gradients.ref());
}

void GradBuckets::flush() {
  left_early_ = next_;
  while (next_ < buckets_.size()) start(buckets_[next_++]);
  if (!learned_) uses_ = uses_now_;
  learned_ = true;
}

void GradBuckets::all_gather_parameters() {
  if (!sharded_) {
    store_.update_copies();
    return;
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const nn::ParameterGroup& group = store_.groups()[static_cast<size_t>(bucket.group)];
    if (group.copies) {
      const int64_t own_begin = bucket.begin + communicator_.rank() * (bucket.length / communicator_.size());
      store_.update_copies(bucket.group, own_begin, spans_[b].weights);
    }
    const Tensor& shared = group.copies ? group.copies : group.weights;
    communicator_.start_all_gather(shared.slice(bucket.begin, {bucket.length}).ref());
  }
  communicator_.wait();
}

std::vector<size_t> GradBuckets::spans_of(int group) const {
  std::vector<size_t> spans;
  for (size_t span = 0; span < spans_.size(); ++span) {
    if (span_groups_[span] == group) spans.push_back(span);
  }
  return spans;
}

Tensor GradBuckets::whole(int group, const std::vector<Tensor>& own, bool wanted) const {
  if (!sharded_) return own.at(0);
  const Tensor& gradients = store_.groups().at(static_cast<size_t>(group)).gradients;
  Tensor all;
  if (wanted) all = empty(gradients.shape(), gradients.dtype(), Device::cpu, MemoryCategory::workspace);
  size_t next = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.group != group) continue;
    const Tensor part = empty({bucket.length}, gradients.dtype(), gradients.device(), MemoryCategory::workspace);
    const int64_t length = bucket.length / communicator_.size();
    copy_elements_to(part.slice(communicator_.rank() * length, {length}).ref(), own.at(next++));
    communicator_.start_all_gather(part.ref());
    communicator_.wait();
    const Waiting waiting(communicator_.ranks(), "the all-gather of a shard");
    synchronize(part.device());
    if (wanted) copy_elements_to(all.slice(bucket.begin, {bucket.length}).ref(), part);
  }
  return all;
}

void GradBuckets::scatter_full(int group, const Tensor& whole, const std::vector<Tensor>& own) const {
  if (!sharded_) return copy_elements_to(own.at(0).ref(), whole);
  size_t next = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.group == group) copy_elements_to(own.at(next++).ref(), own_part(whole, bucket));
  }
}

Tensor GradBuckets::whole_weights(int group, bool wanted) const {
  const Tensor& weights = store_.groups().at(static_cast<size_t>(group)).weights;
  if (weights) return weights;
  std::vector<Tensor> own;
  for (const size_t span : spans_of(group)) own.push_back(spans_[span].weights);
  return whole(group, own, wanted);
}

void GradBuckets::set_weights(int group, const Tensor& whole) {
  const nn::ParameterGroup& g = store_.groups().at(static_cast<size_t>(group));
  if (g.weights) {
    copy_elements_to(g.weights.ref(), whole);
  } else {
    std::vector<Tensor> own;
    for (const size_t span : spans_of(group)) own.push_back(spans_[span].weights);
    scatter_full(group, whole, own);
  }
  if (g.copies) store_.update_copies(group, 0, whole.to(store_.device()));
}

}  // namespace heed::comm
