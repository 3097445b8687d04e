#include "train/comm/backend.hpp"

#include <cstdlib>
#include <cstring>

#include "train/comm/rendezvous.hpp"
#include "train/comm/tcp_socket.hpp"

namespace heed::comm {
namespace {

class TcpProcessGroup final : public ProcessGroup {
 public:
  TcpProcessGroup(const Launch& launch, double timeout_s)
      : ProcessGroup(launch.rank, launch.size), sockets_(static_cast<size_t>(launch.size)) {
    watch(launch, timeout_s);
    {
      const Waiting waiting(*this, "the TCP rendezvous");
      if (is_root()) {
        sockets_ = accept_ranks(launch, timeout_s);
      } else {
        sockets_[0] = connect_to_root(launch, timeout_s);
      }
    }
    rendezvous_complete();
  }

  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  void gather_bytes(const void* mine, int64_t bytes, void* all) override {
    char* to = static_cast<char*>(all);
    if (!is_root()) {
      send_all(socket_of(0), mine, bytes, 0);
      receive_all(socket_of(0), to, bytes * size(), 0);
      return;
    }
    std::memcpy(to, mine, static_cast<size_t>(bytes));
    for (int rank = 1; rank < size(); ++rank) receive_all(socket_of(rank), to + rank * bytes, bytes, rank);
    for (int rank = 1; rank < size(); ++rank) send_all(socket_of(rank), to, bytes * size(), rank);
  }

  int socket_of(int rank) const { return sockets_[static_cast<size_t>(rank)].number(); }

  std::vector<data::Descriptor> sockets_;  // on rank 0 indexed by rank; on other ranks only entry 0 is set
};

}  // namespace

std::unique_ptr<ProcessGroup> join_tcp_ranks(const Launch& launch, double timeout_s) {
  return std::make_unique<TcpProcessGroup>(launch, timeout_s);
}

}  // namespace heed::comm
