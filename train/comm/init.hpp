// How a run gets its ranks: the process group of its launch environment, and the communicator for its device.
#pragma once

#include <memory>

#include "train/comm/communicator.hpp"
#include "train/comm/process_group.hpp"

namespace heed::comm {

// Joins the process group of the launch environment. Throws CommunicationError if that has several ranks which cannot
// be reached: this build has no MPI, MPI reports another rank or size, or the rendezvous over TCP fails.
std::unique_ptr<ProcessGroup> join_ranks(double timeout_s);
// A process group of size one.
std::unique_ptr<ProcessGroup> single_rank();

// The communicator for tensors on a device. Throws CollectiveError for ranks on the CPU that were not started with MPI,
// CommunicationError for ranks on CUDA devices in a build without NCCL, and what make_nccl_communicator() throws.
std::unique_ptr<Communicator> make_communicator(ProcessGroup& ranks, Device device);

}  // namespace heed::comm
