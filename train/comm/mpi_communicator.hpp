// The process group of MPI: host values, and collectives on CPU tensors. no_mpi.cpp is the stub for builds without MPI.
#pragma once

#include <memory>

#include "train/comm/communicator.hpp"
#include "train/comm/process_group.hpp"

namespace heed::comm {

// Name and version of the MPI library; empty in a build without MPI.
std::string mpi_library();

// Throws CommunicationError if rank or size in MPI_COMM_WORLD differ from the launch environment, or if heed is built
// without MPI.
std::unique_ptr<ProcessGroup> join_mpi_ranks(const Launch& launch, double timeout_s);
// `ranks` must come from join_mpi_ranks().
std::unique_ptr<Communicator> make_mpi_communicator(ProcessGroup& ranks);

}  // namespace heed::comm
