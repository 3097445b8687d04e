// Streams, events and graphs: queues of work that runs when the mode (hostcuda.h) says so.
#pragma once

#include <cuda_runtime_api.h>
#include <hostcuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

// Has an event been reached that was recorded on this stream? Lives as long as an event or a wait needs it.
struct Recording {
  cudaStream_t stream;
  bool is_reached = false;
  double milliseconds = 0;
};

struct Work {
  std::string name;
  std::function<void()> run;
  std::shared_ptr<Recording> awaited;  // null if it may run at once
  bool is_collective = false;          // waits for other processes, which all run theirs in the order of the calls
};

// A node of a graph: work, and the nodes that come before it.
struct GraphNode {
  Work work;
  std::set<size_t> after;
};

// A capture under way, or what became of it.
struct CUgraph_st {
  std::vector<GraphNode> nodes;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool is_invalid = false;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};

struct CUstream_st {
  unsigned flags = 0;
  std::deque<Work> queue;
  CUgraph_st* capture = nullptr;
  std::set<size_t> last_nodes;  // of the capture: what the next node of this stream comes after
};

struct CUevent_st {
  unsigned flags = 0;
  std::shared_ptr<Recording> recording;  // the last one, null before the first
  CUgraph_st* capture = nullptr;         // where it was recorded in a capture instead
  std::set<size_t> captured_nodes;
  bool is_external = false;  // recorded by a node of a graph
};

namespace hostcuda {

using Guard = std::lock_guard<std::recursive_mutex>;
extern std::recursive_mutex runtime_lock;

CUstream_st& stream_of(cudaStream_t stream);  // null: the default stream
bool is_stream(cudaStream_t stream);
const std::set<cudaStream_t>& all_streams();

// Gives work to a stream, or to its capture. enqueue_device: work that touches device memory.
cudaError_t enqueue(cudaStream_t stream, Work work);
cudaError_t enqueue_device(cudaStream_t stream, const std::string& name, std::function<void()> run);
cudaError_t enqueue_collective(cudaStream_t stream, const std::string& name, std::function<void()> run);
void finish(CUstream_st& stream);
void finish(const Recording& recording);
void finish_blocking_streams();
void finish_all_streams();
void finish_collectives();  // and what comes before them
bool coin_says_yes();       // never but in the random mode

// Work that is left on the streams, one line each.
std::vector<std::string> unfinished_work();
// What leaks() asks too.
void add_leaks(std::vector<std::string> (*live_objects)());

// ---- Captures (graph.cpp)
bool is_captured(cudaStream_t stream);
void capture(CUstream_st& stream, Work work);
// An error, and the end of the captures that it concerns, for a call that waits for streams or is not safe in a
// capture.
cudaError_t refuse_in_capture();         // whatever the mode: it would wait for a stream that is captured
cudaError_t refuse_unsafe_in_capture();  // unless the mode allows it
cudaError_t refuse_on_captured(cudaStream_t stream);
std::vector<std::string> live_graphs();
std::vector<std::string> live_events();
void forget_captured_events(const CUgraph_st& capture);  // they count as never recorded

}  // namespace hostcuda
