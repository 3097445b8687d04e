// Ranks on this machine that find each other over TCP.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "data/io/descriptor.hpp"
#include "tests/support/child_process.hpp"
#include "train/comm/launch.hpp"

namespace heed::test {

inline sockaddr_in local_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Free when it was looked for.
inline int free_port() {
  const data::Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = local_address(0);
  socklen_t length = sizeof(address);
  ::bind(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

// As soon as something listens there.
inline data::Descriptor connected_to(int port) {
  const sockaddr_in address = local_address(port);
  while (true) {
    data::Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return socket;
    usleep(5'000);
  }
}

inline comm::Launch launch_of(int rank, int size, int port) {
  comm::Launch launch;
  launch.launcher = "torchrun";
  launch.variables = "RANK=" + std::to_string(rank) + ", WORLD_SIZE=" + std::to_string(size);
  launch.rank = rank;
  launch.size = size;
  launch.address = "127.0.0.1";
  launch.port = port;
  launch.job = "port " + std::to_string(port);
  return launch;
}

}  // namespace heed::test
