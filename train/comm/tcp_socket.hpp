// TCP sockets as the ranks use them. Throws CommunicationError where a peer is gone.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "data/io/descriptor.hpp"

namespace heed::comm {

// All bytes, on a blocking socket. A peer that ends closes its sockets, so that the others see it at once.
void send_all(int socket, const void* data, int64_t bytes, int peer);
void receive_all(int socket, void* data, int64_t bytes, int peer);

void send_at_once(int socket);  // no delay for small messages
void set_blocking(int socket, bool blocking);

// What a name resolves to; `problem` says why to nothing, perhaps only for now. host nullptr: this one.
struct Addresses {
  Addresses(const char* host, int port, int family);
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  addrinfo* first = nullptr;
  std::string problem;
};

// A non-blocking socket; an empty one where this machine has no such kind of address. Throws CommunicationError where
// there are no more sockets to be had.
train::Descriptor make_socket(const addrinfo& address);
// Listens on all addresses of this host, and does not block. Throws CommunicationError where it cannot.
train::Descriptor listen_on(int port);
// True where a socket that looks for a port of its own host was given that very port, and so found itself.
bool leads_to_itself(int socket);

// True for errno after accept(), connect() or socket(): the process or the system has no file or memory left.
bool is_exhausted(int error);

}  // namespace heed::comm
