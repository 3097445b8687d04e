// Stands in for mpi_communicator.cpp where heed is built without MPI.
#include "autograd/core/check.hpp"
#include "train/comm/mpi_communicator.hpp"

namespace heed::comm {

std::string mpi_library() { return {}; }

std::unique_ptr<Ranks> join_mpi_ranks(const Launch& launch, double) {
  throw CommunicationError(
      fmt::format("{} started {} ranks, but this heed is built without MPI: install an MPI with its headers (Debian: "
                  "libopenmpi-dev) and build again, or start one rank",
                  launch.launcher, launch.size));
}
std::unique_ptr<Communicator> make_mpi_communicator(Ranks&) {
  throw CommunicationError("this heed is built without MPI");
}

}  // namespace heed::comm
