// How the ranks of a run find each other over TCP.
//
// Rank 0 listens on MASTER_PORT; every other rank connects and sends a Greeting. Rank 0 answers one of its own run with
// its own Greeting, and once all ranks are there it sends each a Verdict. Until then a later connection of a rank takes
// the place of an earlier one, which is told so. Rank 0 polls all connections together: one that stays silent or sends
// something else (scanners, health checks, other runs) delays no rank.
//
// A rank that waits for more than some seconds says on stderr whom it misses; train.comm_timeout_s is the watchdog's.
#pragma once

#include <string>
#include <vector>

#include "data/io/descriptor.hpp"
#include "train/comm/launch.hpp"

namespace heed::comm {

// The start of a connection, in both directions.
struct Greeting {
  char magic[8] = {'h', 'e', 'e', 'd', 'r', 'n', 'k', '2'};
  int32_t size = 0, rank = 0;
  uint64_t run = 0;  // of all nodes, where the launcher names one

  bool is_of_same_run(const Greeting& other) const;
};
Greeting greeting_of(const Launch& launch);
// Throws CommunicationError.
void require_same_size(int rank, int size, int size_of_root);

// What rank 0 sends after its Greeting.
enum class Verdict : int32_t { complete = 1, replaced = 2 };

// After which a rank says whom it waits for.
double seconds_to_notice(double timeout_s);
// The end of that line.
std::string left_over_hint(const Launch& launch);

// On rank 0: blocking sockets of all ranks by their number, none for rank 0 itself. Throws CommunicationError where the
// port cannot be used, connections cannot be accepted, or a rank was started in a world of another size.
std::vector<train::Descriptor> accept_ranks(const Launch& launch, double timeout_s);

// On every other rank: a blocking socket to rank 0. An address that is unknown or where nothing listens is tried again.
// Throws CommunicationError where something else answers there for 10 s, where rank 0 was started in a world of another
// size or is gone, and where another process took the place of this rank.
train::Descriptor connect_to_root(const Launch& launch, double timeout_s);

}  // namespace heed::comm
