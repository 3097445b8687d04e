// The process group of a run: processes (ranks) that train one model together, each with its rows of every batch.
//
// This class exchanges host values: at the start, for a checkpoint, for an evaluation. Gradients and weights are
// exchanged by the Communicator. gather(), gather_texts() and barrier() are collective: all ranks call them, in the
// same order. A wait longer than train.comm_timeout_s ends the process (train/comm/watchdog.hpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/watchdog.hpp"

namespace heed::comm {

struct Launch;

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  // Index of this rank among the ranks of its node.
  int local_rank() const { return local_rank_; }
  virtual bool by_mpi() const { return false; }

  // All-gather of host values: all[r] = the bytes of rank r. All ranks pass the same number of bytes.
  void gather(const void* mine, int64_t bytes, void* all);
  template <class T>
  std::vector<T> gather(const T& mine) {
    std::vector<T> all(static_cast<size_t>(size_));
    gather(&mine, sizeof(T), all.data());
    return all;
  }
  // All-gather of texts of any lengths.
  std::vector<std::string> gather_texts(const std::string& mine);
  void barrier();

  // Sets the step that the error and timeout messages of this process name.
  void set_step(int64_t step);
  int64_t step() const { return step_; }

  // nullptr in a process group of size one.
  Watchdog* watchdog() const { return watchdog_.get(); }

  // Aborts all ranks; this process exits with the exit code.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}
  // Starts the heartbeat page and the watchdog. A derived class calls this before it contacts other ranks.
  void watch(const Launch& launch, double timeout_s);
  // Called by the derived class once all ranks have joined. Collective. Determines local_rank(),
  // excludes ranks of other hosts from the heartbeat page, and unlinks the page's file.
  void rendezvous_complete();
  virtual void gather_bytes(const void* mine, int64_t bytes, void* all) = 0;

 private:
  int rank_, size_, local_rank_ = 0;
  int64_t step_ = 0;
  std::unique_ptr<HeartbeatPage> heartbeat_;
  std::unique_ptr<Watchdog> watchdog_;
};

// RAII: marks a wait for other ranks, which the watchdog times; no effect in a process group of size one.
class Waiting {
 public:
  Waiting(ProcessGroup& ranks, const char* what);

 private:
  std::optional<Watchdog::Wait> wait_;
};

// Sets the number of threads of this rank to the number of CPUs it has to itself, unless OMP_NUM_THREADS is set (see
// cpu::threads_asked_for()). Ranks whose affinity masks overlap divide the CPUs and their CPU quota among them.
// Collective.
void share_processors(ProcessGroup& ranks);

}  // namespace heed::comm
