// The emulated NCCL: what its collectives refuse, and when they are given to a stream.
#include "src/nccl.hpp"

#include <algorithm>
#include <utility>

#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 62;  // so that sizes can be added

// Between ncclGroupStart and ncclGroupEnd calls wait; a stream gets them at the end.
struct WaitingCall {
  ncclComm_t comm;
  CollectiveCall call;
  cudaStream_t stream;
};
thread_local int open_groups = 0;
thread_local std::vector<WaitingCall> waiting_calls;

ncclResult_t give_to_stream(const WaitingCall& one) {
  // A graph may outlive the communicator. What waits on a stream when that is aborted is given up.
  const bool is_replayed = is_stream(one.stream) && is_captured(one.stream);
  const char* name = name_of(one.call.what);
  if (const ncclResult_t result = require_live(name, one.comm); result != ncclSuccess) return result;
  const cudaError_t error = enqueue_collective(one.stream, name, [=] {
    if (one.comm->ended_by == nullptr) return run_call(*one.comm, one.call);
    if (is_replayed) require_live((std::string("a graph that was captured with ") + name).c_str(), one.comm);
  });
  if (error == cudaSuccess) return ncclSuccess;
  return refuse(ncclUnhandledCudaError, std::string(name) + ": " + cudaGetErrorName(error));
}

ncclResult_t check_call(const ncclComm_t comm, const CollectiveCall& call) {
  const char* name = name_of(call.what);
  if (const ncclResult_t result = require_live(name, comm); result != ncclSuccess) return result;
  if (comm->error != ncclSuccess) return comm->error;
  const size_t element = bytes_of(call.type);
  if (element == 0) return refuse(ncclInvalidArgument, format("%s: %d is no type", name, int{call.type}));
  if (call.op != ncclSum && call.op != ncclMax && call.op != ncclMin) {
    return refuse(ncclInvalidArgument, format("%s: %d is no operation", name, int{call.op}));
  }
  if (call.root < 0 || call.root >= comm->ranks) {
    return refuse(ncclInvalidArgument, format("%s: there is no rank %d", name, call.root));
  }
  if (call.count > kMaxBytes / element / static_cast<size_t>(comm->ranks)) {
    return refuse(ncclInvalidArgument, format("%s: %zu elements", name, call.count));
  }
  return ncclSuccess;
}

ncclResult_t issue(ncclComm_t comm, const CollectiveCall& call, cudaStream_t stream) {
  const Guard guard(runtime_lock);
  if (const ncclResult_t result = check_call(comm, call); result != ncclSuccess) return result;
  if (open_groups == 0) return give_to_stream({comm, call, stream});
  waiting_calls.push_back({comm, call, stream});
  return ncclSuccess;
}

}  // namespace

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "ncclAllReduce";
    case Collective::reduce_scatter:
      return "ncclReduceScatter";
    case Collective::all_gather:
      return "ncclAllGather";
    case Collective::broadcast:
      return "ncclBroadcast";
  }
  return "no collective";
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

}  // namespace hostcuda

using namespace hostcuda;

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const Guard guard(runtime_lock);
  if (open_groups == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--open_groups > 0) return ncclSuccess;
  ncclResult_t first_failure = ncclSuccess;
  for (const WaitingCall& one : std::exchange(waiting_calls, {})) {
    const ncclResult_t result = give_to_stream(one);
    if (first_failure == ncclSuccess) first_failure = result;
  }
  return first_failure;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, {Collective::all_reduce, send, recv, count, type, op, 0}, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, {Collective::reduce_scatter, send, recv, count, type, op, 0}, stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return issue(comm, {Collective::all_gather, send, recv, count, type, ncclSum, 0}, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return issue(comm, {Collective::broadcast, send, recv, count, type, ncclSum, root}, stream);
}
