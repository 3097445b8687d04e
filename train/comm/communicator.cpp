#include "train/comm/communicator.hpp"

#include <chrono>

#include "autograd/core/check.hpp"

namespace heed::comm {
namespace {

void require_sums(const TensorRef& values) {
  require<DTypeError>(is_accumulation_dtype(values.dtype), "sums over the ranks are for f32 and f64, not for {}",
                      values.dtype);
}

void require_shards(const TensorRef& values, int size) {
  require<ShapeError>(values.shape.numel() % size == 0, "{} elements are not {} shards of equal length",
                      values.shape.numel(), size);
}

}  // namespace

void Communicator::start_all_reduce(const TensorRef& values) {
  require_sums(values);
  if (values.shape.numel() == 0) return;
  all_reduce(values);
  ++pending_;
}

void Communicator::start_reduce_scatter(const TensorRef& values) {
  require_sums(values);
  require_shards(values, size());
  if (values.shape.numel() == 0) return;
  reduce_scatter(values);
  ++pending_;
}

void Communicator::start_all_gather(const TensorRef& values) {
  require_shards(values, size());
  if (values.shape.numel() == 0) return;
  all_gather(values);
  ++pending_;
}

void Communicator::start_broadcast(const TensorRef& values, int root) {
  require<ValueError>(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
  if (values.shape.numel() == 0) return;
  broadcast(values, root);
  ++pending_;
}

void Communicator::wait() {
  if (pending_ == 0) return;
  const auto begin = std::chrono::steady_clock::now();
  finish();
  pending_ = 0;
  waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace heed::comm
