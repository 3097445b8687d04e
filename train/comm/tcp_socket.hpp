// TCP sockets of the process group. Sending and receiving throw CommunicationError if the peer has exited.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "data/io/descriptor.hpp"

namespace heed::comm {

// Send or receive all bytes, on a blocking socket. The system closes the sockets of a peer that exits, so that the
// others get an error at once.
void send_all(int socket, const void* data, int64_t bytes, int peer);
void receive_all(int socket, void* data, int64_t bytes, int peer);

void send_at_once(int socket);  // TCP_NODELAY: no delay for small messages
void set_blocking(int socket, bool blocking);

// The addresses of a host name (getaddrinfo). `problem` says why it does not resolve, perhaps only temporarily. host
// nullptr: this host.
struct Addresses {
  Addresses(const char* host, int port, int family);
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  addrinfo* first = nullptr;
  std::string problem;
};

// A non-blocking socket; empty if this machine does not support the address family. Throws CommunicationError if the
// process or the system has no file descriptor or memory left.
data::Descriptor make_socket(const addrinfo& address);
// A non-blocking socket that listens on all addresses of this host. Throws CommunicationError if that fails.
data::Descriptor listen_on(int port);
// TCP self-connect: true if the kernel chose the destination port, on this same host, as the socket's own port, so that
// the socket is connected to itself.
bool leads_to_itself(int socket);

// True if errno, after accept(), connect() or socket(), says that the process or the system has no file descriptor or
// memory left.
bool is_exhausted(int error);

}  // namespace heed::comm
