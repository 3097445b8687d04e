// Ranks that find each other over TCP, where a launcher such as torchrun tells them of rank 0's address: values of the
// host only, through rank 0. Tensors go by NCCL.
#pragma once

#include <memory>

#include "train/comm/ranks.hpp"

namespace heed::comm {

// Throws CommunicationError where the ranks cannot find each other (train/comm/rendezvous.hpp).
std::unique_ptr<Ranks> join_tcp_ranks(const Launch& launch, double timeout_s);

}  // namespace heed::comm
