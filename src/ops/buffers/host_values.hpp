// Copies numbers of tensors on any device to main memory, and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops {

/// All elements of a tensor, in order, as T in main memory.
template <class T>
[[nodiscard]] std::vector<T> host_values(const at::Tensor& x) {
  std::vector<T> values(static_cast<std::size_t>(x.numel()));
  at::from_blob(values.data(), x.sizes(), c10::CppTypeToScalarType<T>::value).copy_(x);
  return values;
}

/// Copies `values`, as many as `out` has elements, to `out`.
template <class T>
void set_values(const at::Tensor& out, std::span<const T> values) {
  out.copy_(at::from_blob(const_cast<T*>(values.data()), out.sizes(), c10::CppTypeToScalarType<T>::value));
}

/// Tensor [n] of the given values on `device`.
template <class T>
[[nodiscard]] at::Tensor tensor_of(std::span<const T> values, at::Device device) {
  at::Tensor out =
      at::empty({std::ssize(values)}, at::TensorOptions(device).dtype(c10::CppTypeToScalarType<T>::value));
  set_values(out, values);
  return out;
}

}  // namespace sluice::ops
