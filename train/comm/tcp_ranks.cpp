#include "train/comm/tcp_ranks.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "autograd/core/check.hpp"
#include "data/checksum.hpp"
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

// Where a name leads to; none where it is not known, perhaps only now. host nullptr: this one.
struct Addresses {
  Addresses(const char* host, int port, int family) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
    if (getaddrinfo(host, std::to_string(port).c_str(), &hints, &first) != 0) first = nullptr;
  }
  ~Addresses() {
    if (first != nullptr) freeaddrinfo(first);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  addrinfo* first = nullptr;
};

// A socket that looks for a port of its own host may be given that very port, and so find itself.
bool leads_to_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 && own_length == peer_length &&
         std::memcmp(&own, &peer, own_length) == 0;
}

void limit_wait(int socket, int seconds) {
  const timeval limit{.tv_sec = seconds, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

// What each connection begins with, and is answered by rank 0: both are of this run.
struct Greeting {
  char magic[8] = {'h', 'e', 'e', 'd', 'r', 'a', 'n', 'k'};
  int32_t size = 0, rank = 0;
  uint64_t run = 0;

  bool is_of(const Greeting& other) const {
    return std::memcmp(magic, other.magic, sizeof(magic)) == 0 && run == other.run;
  }
};

class TcpRanks final : public Ranks {
 public:
  TcpRanks(const Launch& launch, double timeout_s)
      : Ranks(launch.rank, launch.size), sockets_(static_cast<size_t>(launch.size)) {
    watch(launch, timeout_s);
    {
      const Waiting waiting(*this, "all ranks to start");
      is_root() ? accept_all(launch) : connect_to_root(launch);
    }
    all_are_here();
  }

  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  Greeting greeting(const Launch& launch) const {
    return {.size = size(), .rank = rank(), .run = data::checksum(launch.run)};
  }

  void accept_all(const Launch& launch) {
    const train::Descriptor listener = listen_on(launch);
    for (int waiting_for = size() - 1; waiting_for > 0;) {
      train::Descriptor peer(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.number() < 0) continue;
      const std::optional<int> rank = greet(peer.number(), greeting(launch));
      if (!rank) continue;
      train::Descriptor& socket = sockets_[static_cast<size_t>(*rank)];
      require<CommunicationError>(socket.number() < 0, "two processes say that they are rank {}", *rank);
      send_at_once(peer.number());
      socket = std::move(peer);
      --waiting_for;
    }
  }

  // The rank at the other end; none where it is a stranger, of whom there are many on a network.
  std::optional<int> greet(int peer, const Greeting& own) const {
    Greeting theirs;
    limit_wait(peer, 5);
    try {
      receive_all(peer, &theirs, sizeof(theirs), -1);
      if (!theirs.is_of(own)) return std::nullopt;
      send_all(peer, &own, sizeof(own), theirs.rank);
    } catch (const CommunicationError&) {
      return std::nullopt;
    }
    limit_wait(peer, 0);
    require<CommunicationError>(theirs.size == size(), "rank {} was started in a world of {}, rank 0 in one of {}",
                                theirs.rank, theirs.size, size());
    require<CommunicationError>(theirs.rank > 0 && theirs.rank < size(), "a process says that it is rank {} of {}",
                                theirs.rank, size());
    return theirs.rank;
  }

  // On all addresses of this host; one socket of IPv6 takes IPv4 too, where there is IPv6.
  static train::Descriptor listen_on(const Launch& launch) {
    std::string reason = "no address";
    for (const int family : {AF_INET6, AF_INET}) {
      const Addresses addresses(nullptr, launch.port, family);
      if (addresses.first == nullptr) continue;
      const addrinfo* const a = addresses.first;
      train::Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (socket.number() < 0) continue;
      const int on = 1, off = 0;
      setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
      if (family == AF_INET6) setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
      if (::bind(socket.number(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.number(), SOMAXCONN) == 0) {
        return socket;
      }
      reason = std::strerror(errno);
      if (errno == EADDRINUSE) break;
    }
    throw CommunicationError(
        fmt::format("rank 0 cannot listen on port {}: {}; set MASTER_PORT to a free one", launch.port, reason));
  }

  // Rank 0 may not listen yet, nor its name be known, so this goes on; the watchdog ends it.
  void connect_to_root(const Launch& launch) {
    constexpr useconds_t kFirstPause = 20'000, kLongestPause = 500'000;
    for (useconds_t pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const Addresses addresses(launch.address.c_str(), launch.port, AF_UNSPEC);
      for (const addrinfo* a = addresses.first; a != nullptr; a = a->ai_next) {
        train::Descriptor socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
        if (::connect(socket.number(), a->ai_addr, a->ai_addrlen) != 0 || leads_to_itself(socket.number())) continue;
        if (!is_root_of(launch, socket.number())) continue;
        send_at_once(socket.number());
        sockets_[0] = std::move(socket);
        return;
      }
      usleep(pause);
    }
  }

  bool is_root_of(const Launch& launch, int socket) const {
    const Greeting own = greeting(launch);
    Greeting theirs;
    limit_wait(socket, 20);  // rank 0 greets one after the other
    try {
      send_all(socket, &own, sizeof(own), 0);
      receive_all(socket, &theirs, sizeof(theirs), 0);
    } catch (const CommunicationError&) {
      return false;
    }
    limit_wait(socket, 0);
    return theirs.is_of(own) && theirs.rank == 0;
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
