#include "train/comm/communicator.hpp"

#include <chrono>

#include "autograd/core/check.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/mpi_communicator.hpp"
#include "train/comm/nccl_communicator.hpp"

namespace heed::comm {
namespace {

// A process group of size one: every collective is a no-op.
class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(ProcessGroup& ranks) : Communicator(ranks) {}

 private:
  void all_reduce(const TensorRef&) override {}
  void reduce_scatter(const TensorRef&) override {}
  void all_gather(const TensorRef&) override {}
  void broadcast(const TensorRef&, int) override {}
  void finish() override {}
};

void require_sums(const TensorRef& values) {
  require<DTypeError>(is_accumulation_dtype(values.dtype), "sums over the ranks are for f32 and f64, not for {}",
                      values.dtype);
}

void require_parts(const TensorRef& values, int size) {
  require<ShapeError>(values.shape.numel() % size == 0, "{} elements are not {} parts of equal length",
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
  require_parts(values, size());
  if (values.shape.numel() == 0) return;
  reduce_scatter(values);
  ++pending_;
}

void Communicator::start_all_gather(const TensorRef& values) {
  require_parts(values, size());
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

std::unique_ptr<Communicator> make_communicator(ProcessGroup& ranks, Device device) {
  if (ranks.size() == 1) return std::make_unique<SingleCommunicator>(ranks);
  if (device == Device::cuda) return make_nccl_communicator(ranks);
  check_on_all_ranks(ranks, [&] {
    require<CommunicationError>(
        ranks.by_mpi(), "{} ranks on the CPU need MPI: start them with mpirun or srun, or train on CUDA devices",
        ranks.size());
  });
  return make_mpi_communicator(ranks);
}

}  // namespace heed::comm
