#include "autograd/tensor.hpp"

#include <algorithm>

#include "autograd/core/accumulate.hpp"
#include "autograd/core/device.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/tensor_impl.hpp"

namespace heed {

const Shape& Tensor::shape() const {
  require<GraphError>(impl_ != nullptr, "an empty tensor handle is used");
  return impl_->shape;
}
DType Tensor::dtype() const {
  require<GraphError>(impl_ != nullptr, "an empty tensor handle is used");
  return impl_->dtype;
}
Device Tensor::device() const {
  require<GraphError>(impl_ != nullptr, "an empty tensor handle is used");
  return impl_->device;
}

TensorRef Tensor::ref() const {
  if (impl_ == nullptr) return {};
  require<GraphError>(impl_->storage != nullptr, "the elements of this input were not kept for backward");
  char* base = static_cast<char*>(impl_->storage->data());
  return {base + impl_->offset_bytes, impl_->shape, impl_->dtype, impl_->device};
}

double Tensor::item() const {
  require<ShapeError>(numel() == 1, "item() of a tensor of shape {}, it must have one element", shape());
  if (device() != Device::cpu) return to(Device::cpu).item();
  return visit_floating(dtype(), [&](auto zero) { return static_cast<double>(*data<decltype(zero)>()); });
}

std::vector<double> Tensor::values() const {
  if (device() != Device::cpu) return to(Device::cpu).values();
  std::vector<double> result(static_cast<size_t>(numel()));
  if (dtype() == DType::i32) {
    std::copy_n(data<int32_t>(), numel(), result.begin());
  } else {
    visit_floating(dtype(), [&](auto zero) { std::copy_n(data<decltype(zero)>(), numel(), result.begin()); });
  }
  return result;
}

bool Tensor::requires_grad() const { return impl_ != nullptr && (impl_->is_leaf_with_grad || impl_->node != nullptr); }

const Tensor& Tensor::set_requires_grad(bool on) const {
  require<GraphError>(impl_ != nullptr && impl_->node == nullptr, "set_requires_grad() is for leaves only");
  require<DTypeError>(!on || is_floating(dtype()), "a {} tensor has no gradient", dtype());
  impl_->is_leaf_with_grad = on;
  return *this;
}

Tensor Tensor::grad() const {
  if (impl_ == nullptr) return {};
  impl_->zero_stale_grad();
  return impl_->grad;
}

void Tensor::reset_grad() const {
  if (impl_ != nullptr && impl_->grad) impl_->grad_is_stale = true;
}

void Tensor::set_grad(Tensor grad) const {
  require<GraphError>(impl_ != nullptr && impl_->node == nullptr, "set_grad() is for leaves only");
  if (grad) {
    require<ShapeError>(grad.shape() == shape(), "a gradient of shape {} for a tensor of shape {}", grad.shape(),
                        shape());
    require<DTypeError>(grad.dtype() == dtype() || grad.dtype() == accumulation_dtype(dtype()),
                        "a {} gradient for a {} tensor", grad.dtype(), dtype());
    require_one_device("set_grad", {{"the tensor", *this}, {"the gradient", grad}});
  }
  impl_->grad = std::move(grad);
  impl_->grad_is_stale = false;
}

Tensor Tensor::detach() const { return slice(0, shape()); }

Tensor Tensor::clone() const {
  Tensor result = empty(shape(), dtype(), device());
  copy_elements_to(result.ref(), ref());
  return result;
}

Tensor Tensor::to(Device other, MemoryCategory category) const {
  if (other == device()) return detach();
  Tensor result = empty(shape(), dtype(), other, category);
  copy_elements_to(result.ref(), ref());
  return result;
}

Tensor Tensor::slice(int64_t offset, const Shape& part) const {
  require<ShapeError>(offset >= 0 && part.numel() <= numel() && offset <= numel() - part.numel(),
                      "a slice of shape {} from element {} of a tensor of shape {}", part, offset, shape());
  auto impl = std::make_shared<Impl>();
  impl->storage = impl_->storage;
  impl->device = impl_->device;
  impl->offset_bytes = impl_->offset_bytes + offset * size_bytes(dtype());
  impl->shape = part;
  impl->dtype = dtype();
  return Tensor(std::move(impl));
}

bool Tensor::has_elements() const { return impl_ != nullptr && impl_->storage != nullptr; }

bool Tensor::unique() const { return impl_.use_count() == 1 && impl_->storage.use_count() == 1; }

Tensor empty(const Shape& shape, DType dtype, Device device, MemoryCategory category) {
  auto impl = std::make_shared<Tensor::Impl>();
  impl->storage = std::make_shared<Buffer>(checked_multiply(shape.numel(), size_bytes(dtype)), device, category);
  impl->device = device;
  impl->shape = shape;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

void fill_zero(const TensorRef& tensor) {
  const int64_t bytes = tensor.shape.numel() * size_bytes(tensor.dtype);
  if (tensor.device == Device::cuda) return fill_memory(tensor.data, tensor.device, 0, bytes);
  // Parallel, so that the threads that wrote the memory last and will write it again clear it (for gradients, those of
  // the optimizer). A single thread took ten times as long on cores without a shared cache.
  constexpr int64_t kGrainBytes = 1 << 16;
  cpu::parallel_for(bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
    fill_memory(static_cast<char*>(tensor.data) + begin, tensor.device, 0, end - begin);
  });
}

void copy_elements_to(const TensorRef& to, const ConstTensorRef& from) {
  require<ShapeError>(to.shape.numel() == from.shape.numel(), "shape {} is copied into shape {}", from.shape, to.shape);
  require<DTypeError>(to.dtype == from.dtype, "{} elements are copied into {}", from.dtype, to.dtype);
  copy_memory(to.data, to.device, from.data, from.device, to.shape.numel() * size_bytes(to.dtype));
}

Tensor zeros(const Shape& shape, DType dtype, Device device, MemoryCategory category) {
  Tensor result = empty(shape, dtype, device, category);
  fill_zero(result.ref());
  return result;
}

Tensor full(const Shape& shape, DType dtype, double value, Device device) {
  require<DTypeError>(is_floating(dtype), "full() makes floating tensors, not {}", dtype);
  Tensor result = empty(shape, dtype, device);
  HEED_DISPATCH(device, set_all, result.ref(), value);
  return result;
}

void require_one_device(const char* operation, std::initializer_list<NamedTensor> inputs) {
  const NamedTensor& first = *inputs.begin();
  for (const NamedTensor& input : inputs) {
    if (!input.tensor) continue;
    require<DeviceError>(input.tensor.device() == first.tensor.device(),
                         "{}: {} is on {} but {} is on {}: copy one of them with to()", operation, first.name,
                         name(first.tensor.device()), input.name, name(input.tensor.device()));
  }
}

Tensor from_values(const Shape& shape, DType dtype, const std::vector<double>& values, Device device) {
  require<ShapeError>(static_cast<int64_t>(values.size()) == shape.numel(), "{} values for a tensor of shape {}",
                      values.size(), shape);
  require<DTypeError>(is_floating(dtype), "from_values() makes floating tensors, not {}", dtype);
  Tensor result = empty(shape, dtype);
  visit_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(values.begin(), values.end(), result.data<T>(), [](double v) { return static_cast<T>(v); });
  });
  return result.to(device);
}

Tensor from_tokens(const Shape& shape, const std::vector<int32_t>& tokens, Device device) {
  require<ShapeError>(static_cast<int64_t>(tokens.size()) == shape.numel(), "{} tokens for a tensor of shape {}",
                      tokens.size(), shape);
  Tensor result = empty(shape, DType::i32);
  std::copy(tokens.begin(), tokens.end(), result.data<int32_t>());
  return result.to(device);
}

}  // namespace heed
