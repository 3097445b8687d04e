// The ranks of a run: processes that train one model together, each with its rows of every batch.
//
// Here are the values that the host exchanges: at the start, for a save, for an evaluation. Gradients and weights go by
// the Communicator. Every function but rank(), size() and abort() is collective: all ranks call it, in the same order.
// A wait longer than train.comm_timeout_s ends the process (train/comm/watchdog.hpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/launch.hpp"
#include "train/comm/watchdog.hpp"

namespace heed::comm {

class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  // Among the ranks of this node.
  int local_rank() const { return local_rank_; }
  virtual bool by_mpi() const { return false; }

  // all[r] = the bytes of rank r; each gives as many.
  void gather(const void* mine, int64_t bytes, void* all);
  template <class T>
  std::vector<T> gather(const T& mine) {
    std::vector<T> all(static_cast<size_t>(size_));
    gather(&mine, sizeof(T), all.data());
    return all;
  }
  // Texts of any lengths.
  std::vector<std::string> gather_texts(const std::string& mine);
  void barrier();

  // Names the update in what is said when this process fails or waits too long.
  void set_update(int64_t update);
  int64_t update() const { return update_; }

  // nullptr in a world of one.
  Watchdog* watchdog() const { return watchdog_.get(); }

  // Ends all ranks, this one with the exit code.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 protected:
  Ranks(int rank, int size) : rank_(rank), size_(size) {}
  // By a class that reaches other ranks, before it begins to.
  void watch(const Launch& launch, double timeout_s);
  // By the same, when all have come: ranks of other hosts are out of sight, and the board's name can go.
  void all_are_here();
  virtual void gather_bytes(const void* mine, int64_t bytes, void* all) = 0;

 private:
  int rank_, size_, local_rank_ = 0;
  int64_t update_ = 0;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Watchdog> watchdog_;
};

// Waits for others while it lives; nothing in a world of one.
class Waiting {
 public:
  Waiting(Ranks& ranks, const char* what);

 private:
  std::optional<Watchdog::Wait> wait_;
};

// The world that the environment tells of. Throws CommunicationError where it tells of several ranks and they cannot be
// reached: no MPI in this build, or MPI sees another world.
std::unique_ptr<Ranks> join_ranks(double timeout_s);
std::unique_ptr<Ranks> single_rank();

// As many threads for this rank as it has processors to itself, where OMP_NUM_THREADS does not say (see
// cpu::threads_asked_for()): ranks that may run on the same processors share them, and their CPU quota. Collective.
void share_processors(Ranks& ranks);

}  // namespace heed::comm
