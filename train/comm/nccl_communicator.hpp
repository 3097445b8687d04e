// Tensors between CUDA devices, by NCCL. Where heed is built without it, no_nccl.cpp stands in.
#pragma once

#include <memory>

#include "train/comm/communicator.hpp"

namespace heed::comm {

// NCCL's version, empty: built without it.
std::string nccl_version();

// One device for each rank. Work goes to a stream of its own, behind what was queued on heed's stream before; a graph
// that is recorded meanwhile records it too. Throws CommunicationError, also for two ranks on one device, and
// DeviceError. Collective, also in a world of one.
std::unique_ptr<Communicator> make_nccl_communicator(Ranks& ranks);

}  // namespace heed::comm
