#include "train/comm/init.hpp"

#include <cstdlib>
#include <cstring>

#include "autograd/core/check.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/backend.hpp"
#include "train/comm/launch.hpp"

namespace heed::comm {
namespace {

class SingleRank final : public ProcessGroup {
 public:
  SingleRank() : ProcessGroup(0, 1) {}
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  void gather_bytes(const void* mine, int64_t bytes, void* all) override {
    std::memcpy(all, mine, static_cast<size_t>(bytes));
  }
};

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

}  // namespace

std::unique_ptr<ProcessGroup> single_rank() { return std::make_unique<SingleRank>(); }

std::unique_ptr<ProcessGroup> join_ranks(double timeout_s) {
  const Launch launch = find_launch();
  if (launch.size == 1) return single_rank();
  return launch.by_mpi ? join_mpi_ranks(launch, timeout_s) : join_tcp_ranks(launch, timeout_s);
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
