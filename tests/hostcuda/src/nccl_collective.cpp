// A collective when its turn comes: the memory of this rank, whether all ranks make the same call, and the exchange.
// Every rank sums in the order of ranks, in the type of the elements, so that all have the same bits.
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "src/access.hpp"
#include "src/device_memory.hpp"
#include "src/nccl.hpp"
#include "src/report.hpp"

namespace hostcuda {
namespace {

// Of each rank at a time: MPI counts in int, and the copies of all ranks lie in memory at once. Whole elements.
constexpr size_t kPieceBytes = 256 << 10;

struct Range {
  const char* begin;
  size_t bytes;
  bool overlaps(const Range& other) const { return begin < other.begin + other.bytes && other.begin < begin + bytes; }
};

// What this rank reads and writes.
struct Ranges {
  Range sent, received;
  bool is_in_place;
};

Ranges ranges_of(const ncclComm& comm, const CollectiveCall& call) {
  const size_t bytes = call.count * bytes_of(call.type);
  const auto ranks = static_cast<size_t>(comm.ranks), before = static_cast<size_t>(comm.rank) * bytes;
  const auto* send = static_cast<const char*>(call.send);
  const auto* recv = static_cast<const char*>(call.recv);
  switch (call.what) {
    case Collective::all_reduce:
      return {{send, bytes}, {recv, bytes}, send == recv};
    case Collective::reduce_scatter:
      return {{send, bytes * ranks}, {recv, bytes}, recv == send + before};
    case Collective::all_gather:
      return {{send, bytes}, {recv, bytes * ranks}, send == recv + before};
    case Collective::broadcast:
      break;
  }
  return {{send, comm.rank == call.root ? bytes : 0}, {recv, bytes}, send == recv};
}

bool lies_in_memory(const std::string& call, const char* what, const Range& range) {
  if (range.bytes == 0 || is_live(range.begin, range.bytes)) return true;
  report("bounds",
         call + format(": what is %s, %zu bytes, leaves its memory: ", what, range.bytes) + describe(range.begin));
  return false;
}

// False if the call cannot run. What else is wrong is reported, and it goes on, as on a GPU.
bool check_memory(const ncclComm& comm, const CollectiveCall& call) {
  const std::string name = name_of(call.what);
  const Ranges ranges = ranges_of(comm, call);
  const bool sent_is_there = lies_in_memory(name, "sent", ranges.sent);
  if (!lies_in_memory(name, "received", ranges.received) || !sent_is_there) return false;
  if (!ranges.is_in_place && ranges.sent.overlaps(ranges.received)) {
    report("race", name + ": what is received overlaps what is sent: " + describe(ranges.received.begin));
  }
  const void* unwritten = ranges.sent.bytes == 0 ? nullptr : never_written(ranges.sent.begin, ranges.sent.bytes);
  if (unwritten != nullptr) report("uninit", name + ": sends memory that was never written: " + describe(unwritten));
  return true;
}

// ---- Agreement
// What a rank is about to do. All but rank and can_run must be the same.
struct Announcement {
  uint64_t count, number;  // number: of the call, on its communicator
  int32_t communicator, what, type, op, root, rank, can_run, padding;

  bool is_same_call(const Announcement& other) const {
    return count == other.count && communicator == other.communicator && what == other.what && type == other.type &&
           op == other.op && root == other.root;
  }
};

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return "ncclUint8";
    case ncclInt32:
      return "ncclInt32";
    case ncclInt64:
      return "ncclInt64";
    case ncclFloat32:
      return "ncclFloat32";
    case ncclFloat64:
      return "ncclFloat64";
    case ncclBfloat16:
      return "ncclBfloat16";
  }
  return "no type";
}

std::string text_of(const Announcement& one) {
  const auto what = static_cast<Collective>(one.what);
  const char* op = one.op == ncclSum ? "ncclSum" : one.op == ncclMax ? "ncclMax" : "ncclMin";
  std::string text = format("rank %d: %s, %zu of %s", one.rank, name_of(what), size_t{one.count},
                            name_of(static_cast<ncclDataType_t>(one.type)));
  if (what == Collective::all_reduce || what == Collective::reduce_scatter) text += format(", %s", op);
  if (what == Collective::broadcast) text += format(", from rank %d", one.root);
  return text + format(", call %zu of communicator %d", size_t{one.number}, one.communicator);
}

// Every rank comes to the same answer. False, with a report and an error of the communicator, if the call cannot run.
bool all_ranks_agree(ncclComm& comm, const CollectiveCall& call, bool can_run) {
  const Announcement mine{call.count, comm.calls, comm.number, static_cast<int32_t>(call.what),
                          call.type,  call.op,    call.root,   comm.rank,
                          can_run,    0};
  const std::vector<char> bytes = gather_from_all(all_processes(), &mine, sizeof(mine), text_of(mine));
  std::vector<Announcement> all(static_cast<size_t>(comm.ranks));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  for (const Announcement& other : all) {
    if (other.is_same_call(all[0])) continue;
    report_nccl("the ranks do not make the same call. " + text_of(all[0]) + "; " + text_of(other));
    comm.error = ncclInvalidUsage;
    return false;
  }
  const auto unable = std::find_if(all.begin(), all.end(), [](const Announcement& one) { return one.can_run == 0; });
  if (unable == all.end()) return true;
  comm.error = can_run ? ncclRemoteError : ncclUnhandledCudaError;
  if (can_run) report_nccl("the call cannot run on one of the ranks. " + text_of(*unable));
  return false;
}

// ---- Exchange
template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps around
    if (op == ncclSum) return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    return op == ncclMax ? std::max(a, b) : std::min(a, b);
  } else {
    // A NaN loses against a number, as with the instructions that NCCL takes.
    if (op == ncclSum) return a + b;
    return op == ncclMax ? T(std::fmax(a, b)) : T(std::fmin(a, b));
  }
}

// `pieces`: that of each rank after the other.
template <class T>
void reduce_as(char* to, const std::vector<char>& pieces, size_t bytes, ncclRedOp_t op) {
  const auto element = [&](size_t offset) {
    T value;
    std::memcpy(&value, &pieces[offset], sizeof(T));
    return value;
  };
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T value = element(i);
    for (size_t j = i + bytes; j < pieces.size(); j += bytes) value = combine(value, element(j), op);
    std::memcpy(to + i, &value, sizeof(T));
  }
}

void reduce(char* to, const std::vector<char>& pieces, size_t bytes, const CollectiveCall& call) {
  switch (call.type) {
    case ncclUint8:
      return reduce_as<uint8_t>(to, pieces, bytes, call.op);
    case ncclInt32:
      return reduce_as<int32_t>(to, pieces, bytes, call.op);
    case ncclInt64:
      return reduce_as<int64_t>(to, pieces, bytes, call.op);
    case ncclFloat32:
      return reduce_as<float>(to, pieces, bytes, call.op);
    case ncclFloat64:
      return reduce_as<double>(to, pieces, bytes, call.op);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16>(to, pieces, bytes, call.op);
  }
}

// A call that can run, piece after piece. MPI sees copies only: device memory is open to this process alone.
class Exchange {
 public:
  Exchange(const ncclComm& comm, const CollectiveCall& call)
      : comm_(comm),
        call_(call),
        send_(static_cast<const char*>(call.send)),
        recv_(static_cast<char*>(call.recv)),
        bytes_(call.count * bytes_of(call.type)),
        ranks_(static_cast<size_t>(comm.ranks)) {}

  void run() const {
    for (size_t offset = 0; offset < bytes_; offset += kPieceBytes) {
      const size_t piece = std::min(kPieceBytes, bytes_ - offset);
      switch (call_.what) {
        case Collective::all_reduce:
          reduce(recv_ + offset, gather(offset, piece), piece, call_);
          break;
        case Collective::reduce_scatter:
          reduce(recv_ + offset, exchange(offset, piece), piece, call_);
          break;
        case Collective::all_gather:
          store_pieces(offset, piece);
          break;
        case Collective::broadcast:
          broadcast(offset, piece);
          break;
      }
    }
  }

 private:
  std::vector<char> gather(size_t offset, size_t piece) const {
    const std::vector<char> mine(send_ + offset, send_ + offset + piece);
    return ranks_ == 1 ? mine : gather_from_all(comm_.mpi, mine.data(), piece, name_of(call_.what));
  }
  std::vector<char> exchange(size_t offset, size_t piece) const {
    std::vector<char> mine(ranks_ * piece);
    for (size_t i = 0; i < ranks_; ++i) std::memcpy(&mine[i * piece], send_ + i * bytes_ + offset, piece);
    return ranks_ == 1 ? mine : exchange_with_all(comm_.mpi, mine.data(), piece, name_of(call_.what));
  }
  void store_pieces(size_t offset, size_t piece) const {
    const std::vector<char> all = gather(offset, piece);
    for (size_t i = 0; i < ranks_; ++i) std::memcpy(recv_ + i * bytes_ + offset, &all[i * piece], piece);
  }
  void broadcast(size_t offset, size_t piece) const {
    std::vector<char> bytes(piece);
    if (comm_.rank == call_.root) std::memcpy(bytes.data(), send_ + offset, piece);
    if (ranks_ > 1) broadcast_to_all(comm_.mpi, bytes.data(), piece, call_.root, name_of(call_.what));
    std::memcpy(recv_ + offset, bytes.data(), piece);
  }

  const ncclComm& comm_;
  const CollectiveCall& call_;
  const char* send_;
  char* recv_;
  size_t bytes_, ranks_;
};

}  // namespace

void run_call(ncclComm& comm, const CollectiveCall& call) {
  if (comm.error != ncclSuccess) return;  // on all ranks: they found it in the same call
  const bool can_run = check_memory(comm, call);
  if (comm.ranks > 1 && !all_ranks_agree(comm, call, can_run)) return;
  ++comm.calls;
  if (!can_run) {
    comm.error = ncclUnhandledCudaError;
    return;
  }
  Exchange(comm, call).run();
  const Range received = ranges_of(comm, call).received;
  if (received.bytes != 0) memory_written(received.begin, received.bytes);
}

}  // namespace hostcuda
