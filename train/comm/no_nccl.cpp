// Stub of nccl_communicator.cpp for builds without CUDA or NCCL.
#include "autograd/core/check.hpp"
#include "train/comm/backend.hpp"

namespace heed::comm {

std::string nccl_version() { return {}; }

std::unique_ptr<Communicator> make_nccl_communicator(ProcessGroup& ranks) {
  throw CommunicationError(fmt::format(
      "{} ranks on CUDA devices need NCCL, and this heed is built without: install NCCL with its header, or "
      "set train.device = \"cpu\"",
      ranks.size()));
}

}  // namespace heed::comm
