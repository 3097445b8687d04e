#include "train/comm/tcp_ranks.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "autograd/core/check.hpp"
#include "train/descriptor.hpp"

namespace heed::comm {
namespace {

// A peer that ends closes its sockets, so that the others see it at once.
void send_all(int socket, const void* data, int64_t bytes, int peer) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, static_cast<size_t>(bytes), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    require<CommunicationError>(sent > 0, "rank {} is gone: {}", peer, std::strerror(errno));
    from += sent;
    bytes -= sent;
  }
}

void receive_all(int socket, void* data, int64_t bytes, int peer) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, to, static_cast<size_t>(bytes), 0);
    if (got < 0 && errno == EINTR) continue;
    require<CommunicationError>(got >= 0, "rank {} is gone: {}", peer, std::strerror(errno));
    require<CommunicationError>(got > 0, "rank {} is gone: it has closed its connection", peer);
    to += got;
    bytes -= got;
  }
}

void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

struct Addresses {
  Addresses(const char* host, int port, bool to_listen) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = to_listen ? AI_PASSIVE : 0;
    const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &first);
    require<CommunicationError>(error == 0, "MASTER_ADDR={}: {}", host == nullptr ? "" : host, gai_strerror(error));
  }
  ~Addresses() { freeaddrinfo(first); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  addrinfo* first = nullptr;
};

// What each connection begins with: it is a rank of this world and no stranger.
struct Greeting {
  char magic[8] = {'h', 'e', 'e', 'd', 'r', 'a', 'n', 'k'};
  int32_t size = 0, rank = 0;
};

class TcpRanks final : public Ranks {
 public:
  TcpRanks(const Launch& launch, double timeout_s)
      : Ranks(launch.rank, launch.size, launch.local_rank), sockets_(static_cast<size_t>(launch.size)) {
    watch(launch, timeout_s);
    {
      const Waiting waiting(*this, "all ranks to start");
      is_root() ? accept_all(launch) : connect_to_root(launch);
    }
    all_are_here();
  }

  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  void accept_all(const Launch& launch) {
    const train::Descriptor listener = listen_on(launch);
    for (int waiting_for = size() - 1; waiting_for > 0;) {
      train::Descriptor peer(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.number() < 0) continue;
      Greeting greeting;
      receive_all(peer.number(), &greeting, sizeof(greeting), -1);
      const bool fits = std::memcmp(greeting.magic, Greeting().magic, sizeof(greeting.magic)) == 0 &&
                        greeting.rank > 0 && greeting.rank < size();
      require<CommunicationError>(fits, "something that is no rank of this run connected to port {}", launch.port);
      require<CommunicationError>(greeting.size == size(), "rank {} was started in a world of {}, rank 0 in one of {}",
                                  greeting.rank, greeting.size, size());
      train::Descriptor& socket = sockets_[static_cast<size_t>(greeting.rank)];
      require<CommunicationError>(socket.number() < 0, "two processes say that they are rank {}", greeting.rank);
      send_at_once(peer.number());
      socket = std::move(peer);
      --waiting_for;
    }
  }

  static train::Descriptor listen_on(const Launch& launch) {
    const Addresses addresses(nullptr, launch.port, true);
    std::string reason = "no address";
    for (const addrinfo* a = addresses.first; a != nullptr; a = a->ai_next) {
      train::Descriptor socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      const int on = 1;
      setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
      if (::bind(socket.number(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.number(), SOMAXCONN) == 0) {
        return socket;
      }
      reason = std::strerror(errno);
    }
    throw CommunicationError(
        fmt::format("rank 0 cannot listen on port {}: {}; set MASTER_PORT to a free one", launch.port, reason));
  }

  // Rank 0 may not listen yet, so this goes on; the watchdog ends it.
  void connect_to_root(const Launch& launch) {
    while (true) {
      const Addresses addresses(launch.address.c_str(), launch.port, false);
      for (const addrinfo* a = addresses.first; a != nullptr; a = a->ai_next) {
        train::Descriptor socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
        if (::connect(socket.number(), a->ai_addr, a->ai_addrlen) != 0) continue;
        send_at_once(socket.number());
        const Greeting greeting{.size = size(), .rank = rank()};
        send_all(socket.number(), &greeting, sizeof(greeting), 0);
        sockets_[0] = std::move(socket);
        return;
      }
      usleep(50'000);
    }
  }

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

  std::vector<train::Descriptor> sockets_;  // on rank 0 by rank, elsewhere that of rank 0
};

}  // namespace

std::unique_ptr<Ranks> join_tcp_ranks(const Launch& launch, double timeout_s) {
  return std::make_unique<TcpRanks>(launch, timeout_s);
}

}  // namespace heed::comm
