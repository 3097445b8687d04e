// Ranks that MPI joins: host values, and tensors of the CPU. Where heed is built without MPI, no_mpi.cpp stands in.
#pragma once

#include <memory>

#include "train/comm/communicator.hpp"
#include "train/comm/ranks.hpp"

namespace heed::comm {

// MPI's name and version, empty: built without it.
std::string mpi_library();

// Throws CommunicationError where MPI sees another world than the launch, or heed is built without MPI.
std::unique_ptr<Ranks> join_mpi_ranks(const Launch& launch, double timeout_s);
// Of ranks that join_mpi_ranks() made.
std::unique_ptr<Communicator> make_mpi_communicator(Ranks& ranks);

}  // namespace heed::comm
