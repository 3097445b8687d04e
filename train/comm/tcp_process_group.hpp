// The process group over TCP, for launchers such as torchrun that set rank 0's address. It exchanges host values only,
// all through rank 0. Tensors are exchanged through NCCL.
#pragma once

#include <memory>

#include "train/comm/process_group.hpp"

namespace heed::comm {

// Throws CommunicationError if the rendezvous fails (train/comm/rendezvous.hpp).
std::unique_ptr<ProcessGroup> join_tcp_ranks(const Launch& launch, double timeout_s);

}  // namespace heed::comm
