// The backends: what exchanges values and tensors between ranks.
//
//   MPI    host values and tensors on the CPU; no_mpi.cpp is the stub for builds without MPI
//   TCP    host values, for launchers such as torchrun that set rank 0's address; all go through rank 0
//   NCCL   tensors on CUDA devices; no_nccl.cpp is the stub for builds without NCCL
#pragma once

#include <memory>
#include <string>

#include "train/comm/communicator.hpp"
#include "train/comm/launch.hpp"
#include "train/comm/process_group.hpp"

namespace heed::comm {

// Name and version of the MPI library; empty in a build without MPI.
std::string mpi_library();

// Throws CommunicationError if rank or size in MPI_COMM_WORLD differ from the launch environment, or if heed is built
// without MPI.
std::unique_ptr<ProcessGroup> join_mpi_ranks(const Launch& launch, double timeout_s);
// `ranks` must come from join_mpi_ranks().
std::unique_ptr<Communicator> make_mpi_communicator(ProcessGroup& ranks);

// Throws CommunicationError if the rendezvous fails (train/comm/rendezvous.hpp).
std::unique_ptr<ProcessGroup> join_tcp_ranks(const Launch& launch, double timeout_s);

// NCCL's version; empty in a build without NCCL.
std::string nccl_version();

// `ranks`: from join_mpi_ranks() or join_tcp_ranks(); one device per rank. Collectives run on a separate stream,
// ordered after the work queued so far on heed's stream; a graph capture in progress on heed's stream includes them.
// Throws CommunicationError, CollectiveError if two ranks use one device, and DeviceError. Collective.
std::unique_ptr<Communicator> make_nccl_communicator(ProcessGroup& ranks);

}  // namespace heed::comm
