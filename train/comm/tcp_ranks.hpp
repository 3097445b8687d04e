// Ranks that find each other over TCP, where a launcher such as torchrun tells them of rank 0's address: values of the
// host only, through rank 0. Tensors go by NCCL.
#pragma once

#include <memory>

#include "train/comm/ranks.hpp"

namespace heed::comm {

// Throws CommunicationError where the port cannot be used or the ranks do not fit together. Strangers that connect are
// let go; an address that is not known (yet) is tried again until the timeout.
std::unique_ptr<Ranks> join_tcp_ranks(const Launch& launch, double timeout_s);

}  // namespace heed::comm
