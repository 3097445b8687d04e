// What a checkpoint holds: tensors, numbers and texts, each under a name.
//
// A name has 1 to 200 printable ASCII characters and no spaces. '/' makes folders ("parameters/blocks.0.norm.weight");
// no part between them may be empty, "." or "..", and a name cannot be both a folder and a value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "autograd/tensor.hpp"

namespace heed::train {

inline constexpr int64_t kMaxNameLength = 200;

// Whether it can stand between the '/' of a name.
bool is_name_part(std::string_view part);

struct CheckpointContent {
  template <class T>
  using Named = std::map<std::string, T, std::less<>>;

  Named<Tensor> tensors;
  Named<int64_t> integers;
  Named<double> reals;       // every bit is kept, those of a NaN too
  Named<std::string> texts;  // any bytes
  std::string file;          // where it was loaded from, see absolute_name(); is not stored

  // These throw CheckpointError with file and dataset where there is no such value; a tensor must also have this dtype
  // and shape.
  const Tensor& tensor(std::string_view name, DType dtype, const Shape& shape) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
};

// A tensor that a checkpoint will have.
struct TensorSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
};

// Throws CheckpointError if the content has a tensor whose name is not in `expected`: the error gives up to three of
// the names and their number. Called by whoever loads all of a checkpoint, so that no part of it is dropped silently.
void require_no_other_tensors(const CheckpointContent& content, std::span<const std::string> expected);

// Throws ValueError with the name of the first value that a checkpoint cannot hold.
void require_storable(const CheckpointContent& content);

}  // namespace heed::train
