// Runs the samples of OP_CASEs: an operation on a device, its plain reference, and what the two are held against.
#pragma once

#include <gtest/gtest.h>

#include "autograd/check/op_case.hpp"

namespace heed::test {

using Values = std::vector<double>;

struct Item {
  const OpCase* op;
  const OpSample* sample;
};
void PrintTo(const Item& item, std::ostream* out);
std::vector<Item> all_items();
std::string item_name(const testing::TestParamInfo<Item>& info);

// Output and gradients of one forward and backward.
struct OpResult {
  Values y = {};
  Tensor dy = {};                      // the cotangent, in the dtype of y
  std::vector<Values> gradients = {};  // of the inputs that want one, in order
};

// Where and in what a sample is run.
struct Place {
  DType dtype = DType::f32;
  Device device = Device::cpu;
};

Tensors draw_all(const OpSample& sample, const Place& place, bool wants_gradients = true);
OpResult run(const OpSample& sample, const Tensors& inputs);
OpResult run(const OpSample& sample, const Place& place);
// The plain formula in f32 or f64, and its gradient by the scalar tape. dy: another cotangent than the usual one.
template <class T>
OpResult run_reference(const OpSample& sample, const Tensors& tensors, const Tensor& dy = {});

double largest(const Values& values);
double distance(const Values& a, const Values& b);

void expect_equal(const OpResult& a, const OpResult& b);
// Each property of an operation, on a device.
void expect_f32_as_exact_as_plain(const OpSample& sample, Device device);
void expect_bf16_rounds_once(const OpSample& sample, Device device);
void expect_nan_and_inf_show(const OpSample& sample, const std::vector<Place>& places);
void expect_inputs_unchanged_and_same_bits(const OpSample& sample, const Place& place);
void expect_two_passes_add_up(const OpSample& sample, Device device);
void expect_one_gradient_alone_is_the_same(const OpSample& sample, Device device);

}  // namespace heed::test
