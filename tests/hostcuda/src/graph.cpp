#include <algorithm>

#include "src/device.hpp"
#include "src/engine.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

std::set<cudaGraph_t>& graphs() {
  static auto* graphs = new std::set<cudaGraph_t>;
  return *graphs;
}
std::set<cudaGraphExec_t>& executables() {
  static auto* executables = new std::set<cudaGraphExec_t>;
  return *executables;
}
std::set<CUgraph_st*>& captures() {
  static auto* captures = new std::set<CUgraph_st*>;
  return *captures;
}

// Does every node come before what the stream has come to?
bool are_joined(const std::vector<GraphNode>& nodes, const std::set<size_t>& last) {
  std::set<size_t> reached = last;
  for (size_t i = nodes.size(); i-- > 0;) {  // nodes come after those with smaller numbers only
    if (reached.count(i) == 0) return false;
    reached.insert(nodes[i].after.begin(), nodes[i].after.end());
  }
  return true;
}

size_t first_collective(const std::vector<GraphNode>& nodes, const std::set<size_t>& left) {
  return *std::find_if(left.begin(), left.end(), [&](size_t i) { return nodes[i].work.is_collective; });
}

// Eager and lazy: as captured. Random: always a node whose predecessors have run, which one a coin says; collectives in
// the order in which all processes captured them.
void run_graph(const std::vector<GraphNode>& nodes) {
  std::set<size_t> left;
  for (size_t i = 0; i < nodes.size(); ++i) left.insert(i);
  while (!left.empty()) {
    size_t chosen = *left.begin();
    for (const size_t candidate : left) {
      const auto& after = nodes[candidate].after;
      const bool may_run = std::none_of(after.begin(), after.end(), [&](size_t i) { return left.count(i) != 0; });
      const bool is_its_turn = !nodes[candidate].work.is_collective || candidate == first_collective(nodes, left);
      if (may_run && is_its_turn && coin_says_yes()) chosen = candidate;
    }
    nodes[chosen].work.run();
    left.erase(chosen);
  }
}

}  // namespace

std::vector<std::string> live_graphs() {
  std::vector<std::string> lines;
  if (!graphs().empty()) lines.push_back(format("%zu graphs", graphs().size()));
  if (!executables().empty()) lines.push_back(format("%zu executable graphs", executables().size()));
  if (!captures().empty()) lines.push_back(format("%zu captures under way", captures().size()));
  return lines;
}

bool is_captured(cudaStream_t stream) { return stream_of(stream).capture != nullptr; }

void capture(CUstream_st& stream, Work work) {
  std::vector<GraphNode>& nodes = stream.capture->nodes;
  nodes.push_back({std::move(work), stream.last_nodes});
  stream.last_nodes = {nodes.size() - 1};
}

cudaError_t refuse_on_captured(cudaStream_t stream) {
  stream_of(stream).capture->is_invalid = true;
  return fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t refuse_in_capture() {
  if (captures().empty()) return cudaSuccess;
  for (CUgraph_st* graph : captures()) graph->is_invalid = true;
  return fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t refuse_unsafe_in_capture() {
  bool is_refused = false;
  for (CUgraph_st* graph : captures()) {
    const bool other_thread = graph->thread != std::this_thread::get_id();
    if (graph->mode == cudaStreamCaptureModeRelaxed) continue;
    if (graph->mode == cudaStreamCaptureModeThreadLocal && other_thread) continue;
    graph->is_invalid = is_refused = true;
  }
  return is_refused ? fail(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

}  // namespace hostcuda

using namespace hostcuda;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Guard guard(runtime_lock);
  if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
  // The default stream cannot be captured.
  if (stream == nullptr || is_captured(stream)) return fail(cudaErrorStreamCaptureUnsupported);
  auto* graph = new CUgraph_st;
  graph->origin = stream;
  graph->mode = mode;
  graph->thread = std::this_thread::get_id();
  captures().insert(graph);
  stream->capture = graph;
  return result();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Guard guard(runtime_lock);
  if (stream == nullptr || !is_stream(stream) || !is_captured(stream)) return fail(cudaErrorInvalidValue);
  CUgraph_st* captured = stream->capture;
  *graph = nullptr;
  if (captured->origin != stream) {
    captured->is_invalid = true;
    return fail(cudaErrorStreamCaptureUnmatched);
  }
  if (captured->mode != cudaStreamCaptureModeRelaxed && captured->thread != std::this_thread::get_id()) {
    return fail(cudaErrorStreamCaptureWrongThread);
  }
  const bool joined = are_joined(captured->nodes, stream->last_nodes);
  for (cudaStream_t other : all_streams()) {
    if (other->capture != captured) continue;
    other->capture = nullptr;
    other->last_nodes.clear();
  }
  captures().erase(captured);
  forget_captured_events(*captured);
  if (captured->is_invalid || !joined) {
    const cudaError_t error = captured->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
    delete captured;
    return fail(error);
  }
  graphs().insert(captured);
  *graph = captured;
  return result();
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Guard guard(runtime_lock);
  if (!is_stream(handle)) return fail(cudaErrorInvalidResourceHandle);
  const CUgraph_st* graph = stream_of(handle).capture;
  *status = graph == nullptr    ? cudaStreamCaptureStatusNone
            : graph->is_invalid ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
  return result();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const Guard guard(runtime_lock);
  if (graphs().count(graph) == 0) return fail(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{std::make_shared<const std::vector<GraphNode>>(graph->nodes)};
  executables().insert(*executable);
  return result();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Guard guard(runtime_lock);
  if (executables().count(executable) == 0) return fail(cudaErrorInvalidValue);
  if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
  if (is_captured(stream)) return fail(cudaErrorNotSupported);  // CUDA would make it a part of the other graph
  const auto& nodes = *executable->nodes;
  const bool has_collective =
      std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) { return node.work.is_collective; });
  return enqueue(stream, {"cudaGraphLaunch", [all = executable->nodes] { run_graph(*all); }, nullptr, has_collective});
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Guard guard(runtime_lock);
  if (graphs().erase(graph) == 0) return fail(cudaErrorInvalidValue);
  delete graph;
  return result();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Guard guard(runtime_lock);
  if (executables().erase(executable) == 0) return fail(cudaErrorInvalidValue);
  delete executable;
  return result();
}
