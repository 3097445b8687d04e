// TCP rendezvous: how the ranks of a run connect to each other.
//
// Rank 0 listens on MASTER_PORT; every other rank connects and sends a Greeting. Rank 0 answers a Greeting of the same
// run with its own Greeting, and once all ranks are connected it sends each a Verdict. Until then a later connection of
// a rank replaces an earlier one, which receives Verdict::replaced. Rank 0 polls all connections together, so a foreign
// connection that is silent or sends something else (port scanners, health checks, other runs) delays no rank.
//
// A rank that waits for more than a few seconds reports on stderr which ranks are missing. The watchdog enforces
// train.comm_timeout_s.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/io/descriptor.hpp"
#include "train/comm/launch.hpp"

namespace heed::comm {

// The first message of a connection, in both directions.
struct Greeting {
  char magic[8] = {'h', 'e', 'e', 'd', 'r', 'n', 'k', '2'};
  int32_t size = 0, rank = 0;
  uint64_t run = 0;  // checksum of the run id, the same on all nodes; of an empty text if the launcher sets none

  bool is_of_same_run(const Greeting& other) const;
};
Greeting greeting_of(const Launch& launch);

// Sent by rank 0 after its Greeting.
enum class Verdict : int32_t { complete = 1, replaced = 2 };

// Seconds of waiting after which a rank reports the missing ranks.
double seconds_to_notice(double timeout_s);

// On rank 0: the blocking sockets of all ranks, indexed by rank; that of rank 0 itself is empty. Throws
// CommunicationError if the port cannot be used, connections cannot be accepted, or a rank was started with another
// world size.
std::vector<data::Descriptor> accept_ranks(const Launch& launch, double timeout_s);

// On every other rank: a blocking socket to rank 0. Retries while the address does not resolve or refuses connections.
// Throws CommunicationError if another program answers there for 10 s (or half of timeout_s, if that is less), if rank
// 0 was started with another world size or has exited, and if another process has replaced this rank.
data::Descriptor connect_to_root(const Launch& launch, double timeout_s);

}  // namespace heed::comm
