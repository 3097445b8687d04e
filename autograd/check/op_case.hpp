// OP_CASE: the declaration of an operation's test and benchmark cases, run by `heed gradcheck`, `heed bench` and the
// tests.
//
//   OP_CASE(scale) {
//     for (const Shape& shape : {Shape{1}, Shape{3, 65}}) {
//       op.sample({.label = shape.text(),
//                  .inputs = {normal("x", shape)},
//                  .run = [](const Tensors& in) { return scale(in[0], 3.0); },
//                  .reference = plain([](const auto& in) { … return a vector of in[0]'s scalar type; })});
//     }
//     op.error<ShapeError>("what is wrong", [] { … }, "text that the message must contain");
//     op.bench({.label = …, .inputs = …, .run = …, .flops = …, .bytes = …});
//   }
//
// A case is defined next to its operation, in autograd/ops/<op>_case.cpp, and includes neither tests nor kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/check/scalar_tape.hpp"
#include "autograd/tensor.hpp"

namespace heed {

using Tensors = std::vector<Tensor>;

// The distribution of the values of an input.
struct SampleInput {
  enum class Kind { normal, away_from_zero, tokens };
  std::string name = {};
  Shape shape = {};
  Kind kind = Kind::normal;
  double mean = 0, spread = 1;  // away_from_zero: |x| in [0.1, 0.1 + spread], for functions with a kink at 0
  int32_t limit = 0;            // tokens: 0 … limit - 1
  bool is_vector = false;       // a parameter vector: f32 if the other inputs are bf16
  bool wants_gradient() const { return kind != Kind::tokens; }
};
SampleInput normal(std::string name, const Shape& shape, double mean = 0, double spread = 1);
SampleInput away_from_zero(std::string name, const Shape& shape);
SampleInput tokens(std::string name, const Shape& shape, int32_t limit);
SampleInput vector_parameter(SampleInput input);
// Draws the values of an input: a pure function of the input and the seed.
Tensor draw(const SampleInput& input, DType dtype, uint32_t seed);

// An input as the reference formula reads it: flat values, or tokens.
template <class S>
struct ReferenceInput {
  Shape shape;
  std::vector<S> values;
  std::vector<int32_t> tokens;
  const S& operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
};
template <class S>
using ReferenceInputs = std::vector<ReferenceInput<S>>;
template <class S>
using ReferenceOf = std::function<std::vector<S>(const ReferenceInputs<S>&)>;

// One reference formula in four scalar types.
struct Reference {
  ReferenceOf<float> f32;
  ReferenceOf<double> f64;
  ReferenceOf<Var<float>> f32_gradient;
  ReferenceOf<Var<double>> f64_gradient;
};
// f: a generic callable; f(const ReferenceInputs<S>&) returns std::vector<S>.
template <class F>
Reference plain(F f) {
  return {f, f, f, f};
}

struct OpSample {
  std::string label = {};
  std::vector<SampleInput> inputs = {};
  std::function<Tensor(const Tensors&)> run = {};
  Reference reference = {};
  bool check_gradients_by_differences = true;  // off if the input is too large for it
  bool backward_reads_result = false;          // in bf16 its rounding then affects the gradients
  bool rounds_between_products = false;        // bf16 on CUDA: a GEMM result is rounded before its next use
  bool cpu_rounds_between_products = false;    // the same on CPUs with AVX512_BF16
  double term_size = 1e-3;                     // of terms that cancel in a result, whose f32 rounding stays
  bool needs_f64 = false;                      // runs on the CPU only
  Device bench_on = Device::cpu;               // for a benchmark row: the device that its sizes suit
  // For bench: FLOPs and bytes moved (as f32) of forward and backward. For backward, -1 means twice the forward.
  double flops = 0, bytes = 0, backward_flops = -1, backward_bytes = -1;
  double backward_parameter_bytes = 0;  // in addition: gradients of parameter matrices, f32 in any dtype
};

struct OpError {
  std::string label;
  std::function<void()> run;
  std::string text;                                    // must be contained in the message
  std::function<bool(const std::exception&)> is_kind;  // checks the type of the exception
};

struct OpCase {
  std::string name;
  std::vector<OpSample> samples, benches;
  std::vector<OpError> errors;

  void sample(OpSample sample) { samples.push_back(std::move(sample)); }
  // Adds a benchmark row. Rows for CUDA are too large for a CPU, rows for the CPU too small for a GPU.
  void bench(OpSample sample, Device device = Device::cpu) {
    sample.bench_on = device;
    benches.push_back(std::move(sample));
  }
  template <class E>
  void error(std::string label, std::function<void()> run, std::string text) {
    errors.push_back({std::move(label), std::move(run), std::move(text),
                      [](const std::exception& e) { return dynamic_cast<const E*>(&e) != nullptr; }});
  }
};

// All declared cases, sorted by name.
const std::vector<OpCase>& op_cases();

struct OpCaseRegistration {
  OpCaseRegistration(std::string name, void (*declare)(OpCase&));
};

}  // namespace heed

#define OP_CASE(name)                                                                \
  static void declare_##name(heed::OpCase& op);                                      \
  static const heed::OpCaseRegistration registration_##name(#name, &declare_##name); \
  static void declare_##name(heed::OpCase& op)
