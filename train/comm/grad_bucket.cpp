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

GradBuckets::GradBuckets(Communicator& communicator, nn::ParameterStore& store, bool sharded,
                         std::vector<EntryOptions> options)
    : communicator_(communicator),
      store_(store),
      sharded_(sharded && communicator.size() > 1),
      options_(std::move(options)) {
  options_.resize(store_.entries().size());
  cut_into_buckets();
  if (sharded_) {
    shard();
    return;
  }
  for (size_t g = 0; g < store_.groups().size(); ++g) {
    const nn::ParameterGroup& group = store_.groups()[g];
    cut_into_spans(
        {.weights = group.weights, .gradients = group.gradients, .decay = group.decay, .copies = group.copies},
        {.group = static_cast<int>(g), .begin = 0});
  }
}

// A cut is where a parameter begins whose options differ from those of the one before it. The padding after a parameter
// belongs to it.
void GradBuckets::cut_into_spans(const optim::ParameterSpan& shard, const Place& place) {
  shards_.push_back(shard);
  const int64_t end = place.begin + shard.weights.numel();
  int64_t begin = place.begin;
  EntryOptions options;
  const auto add = [&](int64_t until) {
    if (until == begin && until < end) return;
    const int64_t first = begin - place.begin;
    spans_.push_back({.weights = shard.weights.slice(first, {until - begin}),
                      .gradients = shard.gradients.slice(first, {until - begin}),
                      .decay = shard.decay,
                      .learning_rate_scale = options.learning_rate_scale,
                      .weight_decay_scale = options.weight_decay_scale,
                      .copies = shard.copies ? shard.copies.slice(first, {until - begin}) : Tensor()});
    places_.push_back({.group = place.group, .begin = begin});
    begin = until;
  };
  for (size_t e = options_.size(); e-- > 0;) {  // in the order of their offsets
    const nn::ParameterStore::Entry& entry = store_.entries()[e];
    if (entry.group != place.group || entry.offset >= end) continue;
    if (entry.offset > begin && options_[e] != options) add(entry.offset);
    options = options_[e];
  }
  add(end);
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

int64_t GradBuckets::own_begin(const Bucket& bucket) const {
  return bucket.begin + communicator_.rank() * (bucket.length / communicator_.size());
}

Tensor GradBuckets::own_part(const Tensor& flat, const Bucket& bucket) const {
  return flat.slice(own_begin(bucket), {bucket.length / communicator_.size()});
}

void GradBuckets::shard() {
  for (const Bucket& bucket : buckets_) {
    const nn::ParameterGroup& group = store_.groups()[static_cast<size_t>(bucket.group)];
    Tensor weights = own_part(group.weights, bucket), copies;
    if (group.leaves_are_copies) {  // master weights are kept by the rank that owns the shard
      copies = own_part(group.copies, bucket);
      const Tensor kept = empty(weights.shape(), weights.dtype(), weights.device(), MemoryCategory::parameters);
      copy_elements_to(kept.ref(), weights);
      weights = kept;
    }
    cut_into_spans(
        {.weights = weights, .gradients = own_part(group.gradients, bucket), .decay = group.decay, .copies = copies},
        {.group = bucket.group, .begin = own_begin(bucket)});
  }
  for (size_t g = 0; g < store_.groups().size(); ++g) {
    if (store_.groups()[g].leaves_are_copies) store_.release_weights(static_cast<int>(g));
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
  // If a parameter got no gradient in this step, grad() writes zeros to its slice.
  for (const size_t entry : bucket.entries) store_.entries()[entry].tensor.grad();
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
  if (!sharded_) return;
  for (const Bucket& bucket : buckets_) {
    const nn::ParameterGroup& group = store_.groups()[static_cast<size_t>(bucket.group)];
    communicator_.start_all_gather(group.leaves().slice(bucket.begin, {bucket.length}).ref());
  }
  communicator_.wait();
  for (size_t g = 0; g < store_.groups().size(); ++g) {
    const nn::ParameterGroup& group = store_.groups()[g];
    if (group.copies && group.weights) store_.update_copies(static_cast<int>(g), 0, group.weights);
  }
}

bool GradBuckets::has_hidden_matrices(const Bucket& bucket) const {
  return std::any_of(bucket.entries.begin(), bucket.entries.end(),
                     [&](size_t entry) { return options_[entry].is_hidden_matrix; });
}

void GradBuckets::all_gather_matrix_gradients() {
  if (!sharded_) return;
  for (const Bucket& bucket : buckets_) {
    if (!has_hidden_matrices(bucket)) continue;
    const Tensor& gradients = store_.groups()[static_cast<size_t>(bucket.group)].gradients;
    communicator_.start_all_gather(gradients.slice(bucket.begin, {bucket.length}).ref());
  }
  communicator_.wait();
}

std::vector<size_t> GradBuckets::spans_of(int group) const {
  std::vector<size_t> spans;
  for (size_t span = 0; span < spans_.size(); ++span) {
    if (places_[span].group == group) spans.push_back(span);
  }
  return spans;
}

Tensor GradBuckets::whole(int group, const std::vector<Tensor>& own, bool wanted) const {
  const Tensor& gradients = store_.groups().at(static_cast<size_t>(group)).gradients;
  if (!sharded_ && own.at(0) && own[0].shape() == gradients.shape()) return own[0];
  const std::vector<size_t> spans = spans_of(group);
  // Copies those of `own` that are within `to`, which begins at element `begin` of the group.
  const auto put = [&](const Tensor& to, int64_t begin) {
    for (size_t i = 0; i < spans.size(); ++i) {
      const int64_t offset = places_[spans[i]].begin - begin;
      if (!own.at(i) || offset < 0 || offset >= to.numel()) continue;
      copy_elements_to(to.slice(offset, own[i].shape()).ref(), own[i]);
    }
  };
  Tensor all;
  if (wanted) all = zeros(gradients.shape(), gradients.dtype(), Device::cpu, MemoryCategory::workspace);
  if (!sharded_) {
    if (wanted) put(all, 0);
    return all;
  }
  for (const Bucket& bucket : buckets_) {
    if (bucket.group != group) continue;
    const Tensor part = zeros({bucket.length}, gradients.dtype(), gradients.device(), MemoryCategory::workspace);
    put(part, bucket.begin);
    communicator_.start_all_gather(part.ref());
    communicator_.wait();
    const Waiting waiting(communicator_.ranks(), "the all-gather of a shard");
    synchronize(part.device());
    if (wanted) copy_elements_to(all.slice(bucket.begin, {bucket.length}).ref(), part);
  }
  return all;
}

void GradBuckets::scatter_full(int group, const Tensor& whole, const std::vector<Tensor>& own) const {
  const std::vector<size_t> spans = spans_of(group);
  for (size_t i = 0; i < spans.size(); ++i) {
    if (own.at(i)) copy_elements_to(own[i].ref(), whole.slice(places_[spans[i]].begin, own[i].shape()));
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
