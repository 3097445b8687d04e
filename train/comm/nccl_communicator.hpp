// Collectives on tensors of CUDA devices, through NCCL. no_nccl.cpp is the stub for builds without NCCL.
#pragma once

#include <memory>

#include "train/comm/communicator.hpp"

namespace heed::comm {

// NCCL's version; empty in a build without NCCL.
std::string nccl_version();

// One device per rank. Collectives run on a stream of their own, ordered after the work queued so far on heed's stream;
// a graph capture in progress on heed's stream includes them. Throws CommunicationError, CollectiveError if two ranks
// use one device, and DeviceError. Collective, also in a process group of size one.
std::unique_ptr<Communicator> make_nccl_communicator(ProcessGroup& ranks);

}  // namespace heed::comm
