#include "nn/parameter_store.hpp"

#include <algorithm>

#include "autograd/core/device.hpp"
#include "autograd/core/philox.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/copy.hpp"

namespace heed::nn {
namespace {

uint32_t site_of(const std::string& name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return random_site(RandomDomain::init) | (hash & 0x0FFFFFFFu);
}

// Draws on the host, so that the values are the same on every device.
template <class T>
void draw(const ParameterStore::Entry& entry, uint32_t seed) {
  constexpr int64_t kGrain = 1024;  // pairs of values: about 20 us
  const bool is_here = entry.values.device() == Device::cpu;
  const Tensor drawn = is_here ? entry.values : empty(entry.shape, entry.values.dtype());
  T* values = drawn.data<T>();
  const RandomStream stream{.seed = seed, .site = site_of(entry.name), .step = 0};
  const int64_t count = entry.shape.numel();
  const double deviation = entry.init.std;
  if (deviation == 0) std::fill_n(values, count, static_cast<T>(entry.init.constant));
  cpu::parallel_for(deviation == 0 ? 0 : (count + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const auto [first, second] = stream.normal_pair(static_cast<uint64_t>(pair));
      values[2 * pair] = static_cast<T>(deviation * first);
      if (2 * pair + 1 < count) values[2 * pair + 1] = static_cast<T>(deviation * second);
    }
  });
  if (!is_here) copy_elements_to(entry.values.ref(), drawn);
}

}  // namespace

const Tensor& Parameter::tensor() const {
  static const Tensor none;
  return store_ == nullptr ? none : store_->entries()[index_].tensor;
}

const Tensor& Parameter::copy() const {
  static const Tensor none;
  return store_ == nullptr ? none : store_->entries()[index_].copy;
}

Parameter ParameterStore::declare(const std::string& name, const Shape& shape, Init init) {
  require<GraphError>(groups_.empty(), "parameter '{}' is declared after build()", name);
  for (const Entry& entry : entries_) {
    require<GraphError>(entry.name != name, "parameter '{}' is declared twice", name);
  }
  entries_.push_back({.name = name,
                      .shape = shape,
                      .init = init,
                      .group = shape.rank() >= 2 ? 0 : 1,
                      .values = {},
                      .tensor = {},
                      .copy = {}});
  return {this, entries_.size() - 1};
}

void ParameterStore::build(std::optional<uint32_t> seed, int64_t span_multiple) {
  require<GraphError>(groups_.empty(), "build() is called twice");
  groups_.resize(2);
  std::array<int64_t, 2> elements{};
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    const auto group = static_cast<size_t>(entry->group);
    entry->offset = elements[group];
    elements[group] += round_up(entry->shape.numel(), kAlignment);
    ++groups_[group].tensors;
    groups_[group].parameters += entry->shape.numel();
  }
  require<ValueError>(span_multiple > 0 && span_multiple % kAlignment == 0, "spans of a multiple of {} elements",
                      span_multiple);
  for (size_t g = 0; g < groups_.size(); ++g) {
    elements[g] = round_up(elements[g], span_multiple);
    groups_[g].decay = g == 0;
    const DType exact = accumulation_dtype(dtype_);
    groups_[g].weights = zeros({elements[g]}, exact, device_, MemoryCategory::parameters);
    groups_[g].gradients = zeros({elements[g]}, exact, device_, MemoryCategory::gradients);
    groups_[g].leaves_are_copies = g == 0 && dtype_ != exact;
    if (dtype_ != exact) groups_[g].copies = zeros({elements[g]}, dtype_, device_, MemoryCategory::parameters);
  }
  for (Entry& entry : entries_) {
    const ParameterGroup& group = groups_[static_cast<size_t>(entry.group)];
    entry.values = group.weights.slice(entry.offset, entry.shape);
    if (group.copies) entry.copy = group.copies.slice(entry.offset, entry.shape);
    entry.tensor = group.leaves().slice(entry.offset, entry.shape);
    entry.tensor.set_requires_grad(true);
    entry.tensor.set_grad(group.gradients.slice(entry.offset, entry.shape));
    if (seed) visit_accumulation(accumulation_dtype(dtype_), [&](auto zero) { draw<decltype(zero)>(entry, *seed); });
  }
  if (seed) update_copies();
}

void ParameterStore::update_copies() const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].copies) update_copies(static_cast<int>(g), 0, groups_[g].weights);
  }
}

void ParameterStore::update_copies(int group, int64_t offset, const Tensor& weights) const {
  const Tensor copies = groups_.at(static_cast<size_t>(group)).copies.slice(offset, weights.shape());
  HEED_DISPATCH(device_, cast_elements, copies.ref(), weights);
}

void ParameterStore::release_weights(int group) {
  ParameterGroup& released = groups_.at(static_cast<size_t>(group));
  require<GraphError>(released.leaves_are_copies,
                      "release_weights: group {} has no bf16 leaves, operations use its weights", group);
  released.weights = Tensor();
  for (Entry& entry : entries_) {
    if (entry.group == group) entry.values = Tensor();
  }
}

const ParameterStore::Entry& ParameterStore::entry(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  require<GraphError>(found != entries_.end(), "there is no parameter '{}'", name);
  return *found;
}

std::vector<Tensor> ParameterStore::leaves() const {
  std::vector<Tensor> leaves;
  for (const Entry& entry : entries_) leaves.push_back(entry.tensor);
  return leaves;
}

int64_t ParameterStore::parameters() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.shape.numel();
  return sum;
}

void ParameterStore::zero_gradients() const {
  for (const Entry& entry : entries_) entry.tensor.reset_grad();
}

}  // namespace heed::nn
