// Error handling across ranks: an error on any rank is raised on all ranks and printed once, and values that must be
// the same on all ranks are compared.
#pragma once

#include <functional>
#include <stdexcept>

#include "train/comm/process_group.hpp"

namespace heed::comm {

// A collective error: it is raised on all ranks, and each rank exits by itself. what() is the text that the root
// prints; it is empty on the other ranks.
struct CollectiveError : std::runtime_error {
  CollectiveError(const std::string& text, int code) : std::runtime_error(text), exit_code(code) {}
  int exit_code;
};

// The process exit code of an exception (exception types: autograd/core/check.hpp).
int exit_code(const std::exception& error);

// The message of an error: its what(). For std::bad_alloc and for the std::length_error of a vector, whose what() names
// nothing, it says instead that memory ran out and how much is available.
std::string error_text(const std::exception& error);

// Runs f, which must not be collective, on each rank, and throws CollectiveError on all ranks, also on those where f
// succeeded, if f threw on any of them. The exit code is that of the first rank that failed. The text is each different
// error_text() of the exceptions, with the first rank that met it, unless all ranks met the same. Nothing is printed
// here. In a process group of size one, f's own exception propagates.
void check_on_all_ranks(ProcessGroup& ranks, const std::function<void()>& f);

// Throws CollectiveError on all ranks unless `mine` is the same text on every rank. The message shows the first line
// that differs: "config: rank 0 has `d_model = 16`, rank 1 has `d_model = 32`".
void require_same_on_all_ranks(ProcessGroup& ranks, const std::string& what, const std::string& mine);

}  // namespace heed::comm
