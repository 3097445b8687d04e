#include "train/comm/tcp_socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstring>

#include "autograd/core/check.hpp"

namespace heed::comm {

void send_all(int socket, const void* data, int64_t bytes, int peer) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent =
        data::retry_interrupted([&] { return ::send(socket, from, static_cast<size_t>(bytes), MSG_NOSIGNAL); });
    require<CommunicationError>(sent > 0, "rank {} is gone: {}", peer, std::strerror(errno));
    from += sent;
    bytes -= sent;
  }
}

void receive_all(int socket, void* data, int64_t bytes, int peer) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = data::retry_interrupted([&] { return ::recv(socket, to, static_cast<size_t>(bytes), 0); });
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

void set_blocking(int socket, bool blocking) {
  const int flags = fcntl(socket, F_GETFL);
  fcntl(socket, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

Addresses::Addresses(const char* host, int port, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &first);
  if (error == 0) return;
  first = nullptr;
  problem = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
}

Addresses::~Addresses() {
  if (first != nullptr) freeaddrinfo(first);
}

bool is_exhausted(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

data::Descriptor make_socket(const addrinfo& address) {
  data::Descriptor socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  require<CommunicationError>(socket.number() >= 0 || !is_exhausted(errno), "cannot open a socket: {}",
                              std::strerror(errno));
  return socket;
}

// Where IPv6 is available, one IPv6 socket also accepts IPv4 connections.
data::Descriptor listen_on(int port) {
  std::string reason;
  for (const int family : {AF_INET6, AF_INET}) {
    const Addresses addresses(nullptr, port, family);
    if (reason.empty()) reason = addresses.problem;
    if (addresses.first == nullptr) continue;
    data::Descriptor socket = make_socket(*addresses.first);
    if (socket.number() < 0) continue;
    const int on = 1, off = 0;
    setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6) setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (::bind(socket.number(), addresses.first->ai_addr, addresses.first->ai_addrlen) == 0 &&
        ::listen(socket.number(), SOMAXCONN) == 0) {
      return socket;
    }
    reason = std::strerror(errno);
    if (errno == EADDRINUSE) break;
  }
  throw CommunicationError(fmt::format("rank 0 cannot listen on port {}: {}; set MASTER_PORT to a free one", port,
                                       reason.empty() ? "no address" : reason));
}

bool leads_to_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 && own_length == peer_length &&
         std::memcmp(&own, &peer, own_length) == 0;
}

}  // namespace heed::comm
