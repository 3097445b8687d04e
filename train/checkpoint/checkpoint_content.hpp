// The content of a checkpoint: tensors, numbers and texts, each with a name.
//
// A name has 1 to 200 printable ASCII characters without spaces. '/' separates groups
// ("parameters/blocks.0.norm.weight"). No component may be empty, "." or "..", and a name cannot be both a group and a
// value.
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

// Whether it is a valid component of a name, between two '/'.
bool is_name_part(std::string_view part);

struct CheckpointContent {
  template <class T>
  using Named = std::map<std::string, T, std::less<>>;

  Named<Tensor> tensors;
  Named<int64_t> integers;
  Named<double> reals;       // bit-exact, even for NaN
  Named<std::string> texts;  // arbitrary bytes
  std::string file;          // the file it was loaded from, see absolute_name(); not stored

  // These throw CheckpointError with the file and the dataset if the value is missing, or if the tensor has another
  // dtype or shape.
  const Tensor& tensor(std::string_view name, DType dtype, const Shape& shape) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
};

// A tensor that a checkpoint will contain.
struct TensorSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
};

// Throws CheckpointError if the content has tensors whose names are not in `expected`, with their number and up to
// three of the names. To be called when a whole checkpoint is loaded, so that no part of it is dropped silently.
void require_no_other_tensors(const CheckpointContent& content, std::span<const std::string> expected);

// Throws ValueError with the name of the first value that a checkpoint cannot store.
void require_storable(const CheckpointContent& content);

}  // namespace heed::train
