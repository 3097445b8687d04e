// Stub of mpi_communicator.cpp for builds without MPI.
#include "autograd/core/check.hpp"
#include "train/comm/backend.hpp"

namespace heed::comm {

std::string mpi_library() { return {}; }

std::unique_ptr<ProcessGroup> join_mpi_ranks(const Launch& launch, double) {
  throw CommunicationError(
      fmt::format("the environment has {}, but this heed is built without MPI: unset these variables if they are left "
                  "over; else install an MPI with its headers (Debian: libopenmpi-dev) and build heed again",
                  launch.variables));
}
std::unique_ptr<Communicator> make_mpi_communicator(ProcessGroup&) {
  throw CommunicationError("this heed is built without MPI");
}

}  // namespace heed::comm
