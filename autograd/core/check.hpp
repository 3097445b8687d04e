// Error types, and require(), the check that throws them.
//
// An error message is one line: what is wrong, the actual values, what is allowed, which config key to change.
// Exit codes of the error types in train/commands/main.cpp:
//   ConfigError 2 · DataError 3 · CheckpointError 4 · DeviceError, MemoryError 5 · DivergedError 6 ·
//   CommunicationError 7
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace heed {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Invalid arguments of an operation.
struct ShapeError : Error {
  using Error::Error;
};
struct DTypeError : Error {
  using Error::Error;
};
struct ValueError : Error {
  using Error::Error;
};
// Invalid use of the tape: a second backward, backward without a graph, …
struct GraphError : Error {
  using Error::Error;
};

struct ConfigError : Error {
  using Error::Error;
};
struct DataError : Error {
  using Error::Error;
};
struct CheckpointError : Error {
  using Error::Error;
};
struct DeviceError : Error {
  using Error::Error;
};
struct MemoryError : Error {
  using Error::Error;
};
struct DivergedError : Error {
  using Error::Error;
};
struct CommunicationError : Error {
  using Error::Error;
};

// require<ShapeError>(x.rank() == 2, "linear: x has shape {}, it must have two dimensions", x.shape());
template <class E, class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]] {
    throw E(fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace heed
