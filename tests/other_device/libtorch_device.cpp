// What makes LibTorch take the memory of other_device/memory.hpp for another device's: its operations run by
// the kernels of this processor, on the mapping that the host can use. An operation that is given tensors of
// both places is an error, but for tensors without dimensions, as with CUDA.
#include "base/error.hpp"
#include "ops/runtime/torch_version.hpp"
#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#if SLUICE_TORCH_DEVICE_HOOKS
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#endif

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::other_device {
namespace {

const at::Device kDevice(at::DeviceType::PrivateUse1, 0);
/// Of fresh memory, which is no number in any floating-point type.
constexpr int kUnset = 0xff;

struct TensorMemory final : at::Allocator {
#if SLUICE_TORCH_ALLOCATORS_COPY
  at::DataPtr allocate(std::size_t bytes) override { return memory(bytes); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    queue([target, source, bytes] { std::memcpy(host_address(target), host_address(source), bytes); });
  }
#else
  at::DataPtr allocate(std::size_t bytes) const override { return memory(bytes); }
#endif
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }

 private:
  static at::DataPtr memory(std::size_t bytes) {
    if (bytes == 0) return {nullptr, nullptr, &give_back, kDevice};
    std::byte* const data = take(static_cast<std::int64_t>(bytes));
    TORCH_CHECK(data != nullptr, "the device is full");
    queue([data, bytes] { std::memset(host_address(data), kUnset, bytes); });
    return {data, data, &give_back, kDevice};
  }
};

TensorMemory tensor_memory;

/// One device with one stream.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;
  [[nodiscard]] c10::DeviceType type() const override { return static_type; }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  [[nodiscard]] c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  [[nodiscard]] c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

#if SLUICE_TORCH_DEVICE_HOOKS
struct Hooks final : at::PrivateUse1HooksInterface {
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const override { return 1; }
  [[nodiscard]] c10::DeviceIndex getCurrentDevice() const override { return 0; }
  /// at::manual_seed() sets that of each device.
  [[nodiscard]] const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return numbers_; }

 private:
  at::Generator numbers_ = at::detail::createCPUGenerator();
};
#endif

bool is_ours(const at::Tensor& x) { return x.device().type() == at::DeviceType::PrivateUse1; }

/// The numbers of a device's tensor as a tensor of the host.
at::Tensor on_host(const at::Tensor& x) {
  return at::from_blob(readable(x.data_ptr()), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

at::Tensor empty_on_device(at::IntArrayRef size, std::optional<at::IntArrayRef> strides,
                           at::ScalarType dtype) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return strides ? at::detail::empty_strided_generic(size, *strides, &tensor_memory, keys, dtype)
                 : at::detail::empty_generic(size, &tensor_memory, keys, dtype, c10::nullopt);
}

at::Tensor on_device(const at::Tensor& x) {
  const bool is_dense = x.is_non_overlapping_and_dense();
  at::Tensor out =
      empty_on_device(x.sizes(), is_dense ? std::optional(x.strides()) : std::nullopt, x.scalar_type());
  finish();
  on_host(out).copy_(x);
  return out;
}

at::Tensor argument_on_host(const at::Tensor& x, const c10::OperatorHandle& op) {
  if (!x.defined()) return x;
  if (is_ours(x)) return on_host(x);
  TORCH_CHECK(x.dim() == 0, "a tensor of the host in an operation of the device: ", op.schema().name());
  return x;
}

c10::IValue value_on_host(const c10::IValue& value, const c10::OperatorHandle& op) {
  if (value.isTensor()) return argument_on_host(value.toTensor(), op);
  if (value.isDevice()) return at::Device(at::kCPU);
  if (value.isTensorList()) {
    std::vector<at::Tensor> list;
    for (const at::Tensor& x : value.toTensorVector()) list.push_back(argument_on_host(x, op));
    return list;
  }
  if (value.isList() && value.toListRef().size() > 0 &&
      std::ranges::any_of(value.toListRef(), [](const c10::IValue& x) { return x.isTensor(); })) {
    c10::List<c10::optional<at::Tensor>> list;
    for (const c10::IValue& x : value.toListRef())
      list.push_back(x.isTensor() ? c10::make_optional(argument_on_host(x.toTensor(), op)) : c10::nullopt);
    return list;
  }
  return value;
}

/// The argument that an operation says it returns, if it does.
std::optional<std::size_t> written_argument(const c10::FunctionSchema& schema, const c10::Argument& result) {
  if (result.alias_info() == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && *alias == *result.alias_info()) return i;
  }
  return std::nullopt;
}

c10::IValue value_on_device(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? on_device(value.toTensor()) : value.toTensor();
  if (!value.isTensorList()) return value;
  std::vector<at::Tensor> list;
  for (const at::Tensor& x : value.toTensorVector()) list.push_back(on_device(x));
  return list;
}

/// Of an output without elements, which may grow.
bool is_to_grow(const c10::Argument& argument, const c10::IValue& value) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite() && value.isTensor() &&
         is_ours(value.toTensor()) && value.toTensor().numel() == 0;
}

/// Outputs: what was there is not kept.
const at::Tensor& resize(const at::Tensor& x, at::IntArrayRef size, c10::optional<at::MemoryFormat>) {
  x.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  const auto bytes = static_cast<std::size_t>((x.numel() + x.storage_offset()) * x.element_size());
  const c10::Storage& storage = x.storage();
  if (storage.nbytes() < bytes) {
    storage.set_data_ptr_noswap(tensor_memory.allocate(bytes));
    storage.set_nbytes(bytes);
  }
  return x;  // NOLINT(bugprone-return-const-ref-from-parameter): as the operation is declared
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  std::vector<std::pair<at::Tensor, at::Tensor>> grown;  // tensors of the device, each with that of the host
  finish();
  for (std::size_t i = 0; i < count; ++i) {
    c10::IValue& value = (*stack)[stack->size() - count + i];
    if (is_to_grow(schema.arguments()[i], value)) {
      const at::Tensor& x = value.toTensor();
      grown.emplace_back(x, at::empty(x.sizes(), x.options().device(at::kCPU)));
      value = grown.back().second;
    } else {
      value = value_on_host(value, op);
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (const auto& [x, host] : grown) {
    resize(x, host.sizes(), c10::nullopt);
    finish();
    on_host(x).copy_(host);
  }
  const std::size_t results = schema.returns().size();
  for (std::size_t i = 0; i < results; ++i) {
    c10::IValue& value = (*stack)[stack->size() - results + i];
    const c10::Argument& result = schema.returns()[i];
    const auto written = written_argument(schema, result);
    TORCH_CHECK(written || result.alias_info() == nullptr,
                "a view of the device is missing: ", schema.name());
    value = written ? arguments[*written] : value_on_device(value);
  }
}

at::Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout>,
                 c10::optional<at::Device>, c10::optional<bool>, c10::optional<at::MemoryFormat>) {
  return empty_on_device(size, std::nullopt, dtype.value_or(at::kFloat));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef strides, c10::optional<at::ScalarType> dtype,
                         c10::optional<at::Layout>, c10::optional<at::Device>, c10::optional<bool>) {
  return empty_on_device(size, strides, dtype.value_or(at::kFloat));
}

/// Between the two places, and within this one.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  finish();
  (is_ours(to) ? on_host(to) : to).copy_(is_ours(from) ? on_host(from) : from);
  return to;
}

at::Tensor as_strided(const at::Tensor& x, at::IntArrayRef size, at::IntArrayRef strides,
                      c10::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(x, size, strides, offset);
}

at::Tensor& set_storage(at::Tensor& x, c10::Storage storage, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef strides) {
  return at::native::set_storage_cpu_(x, std::move(storage), offset, size, strides);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

const bool kIsRegistered = [] {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &tensor_memory);
#if SLUICE_TORCH_DEVICE_HOOKS
  // Else there is no accelerator that autograd's engine could ask for its stream.
  c10::register_privateuse1_backend("other_device");
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
#endif
  return true;
}();

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("as_strided", as_strided);
  m.impl("view", [](const at::Tensor& x, at::IntArrayRef size) { return at::native::view(x, size); });
  m.impl("_reshape_alias", [](const at::Tensor& x, at::IntArrayRef size, at::IntArrayRef strides) {
    return at::native::_reshape_alias(x, size, strides);
  });
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("resize_", resize);
}

}  // namespace sluice::other_device
