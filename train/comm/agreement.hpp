// Agreement between ranks: an error that any of them meets ends all of them, with one line; and what must be the same
// on all ranks is.
#pragma once

#include <functional>
#include <stdexcept>

#include "train/comm/ranks.hpp"

namespace heed::comm {

// An error that all ranks know of: each ends by itself. what() is for the root to print, empty elsewhere.
struct SharedError : std::runtime_error {
  SharedError(const std::string& text, int code) : std::runtime_error(text), exit_code(code) {}
  int exit_code;
};

// The exit code that an exception stands for (autograd/core/check.hpp).
int exit_code(const std::exception& error);

// What is said of an error: its text, and for the bare errors of the standard library, which name nothing
// (std::bad_alloc and the std::length_error of a vector), that memory is missing and how much there is.
std::string error_text(const std::exception& error);

// Runs f, which must not be collective, on each rank, and throws SharedError on all where it threw on any. In a world
// of one f's own exception comes through.
void agree(Ranks& ranks, const std::function<void()>& f);

// Throws SharedError on all ranks unless `mine` is the same text on all. The lines that differ are shown:
// "config: rank 0 has `d_model = 16`, rank 1 has `d_model = 32`".
void require_same(Ranks& ranks, const std::string& what, const std::string& mine);

}  // namespace heed::comm
