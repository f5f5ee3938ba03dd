#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <deque>

namespace sluice::ops {
namespace {

constexpr double kHeld = 0.5;
/// What 0.5 costs a sum that begins with it.
constexpr double kFirstTolerance = 1e-5;

Tensors leaves(const Tensors& tensors, at::ScalarType dtype) {
  Tensors result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(tensor.detach().to(dtype).clone().requires_grad_());
  return result;
}

Tensors values(const Parameters& parameters) {
  Tensors result;
  for (const Parameter& parameter : parameters) result.push_back(parameter.value);
  return result;
}

void expect_works_without_gradients(const Operation& operation, const Tensors& inputs,
                                    const Parameters& parameters, const at::Tensor& expected) {
  {
    const at::NoGradGuard no_grad;
    const at::Tensor output = operation(inputs, parameters);
    EXPECT_FALSE(output.requires_grad());
    EXPECT_TRUE(output.equal(expected)) << "without a graph";
  }
  Parameters frozen;
  for (const Parameter& parameter : parameters) frozen.push_back({parameter.value, {}});
  const Tensors again = leaves(inputs, inputs[0].scalar_type());
  operation(again, frozen).sum().backward();
  EXPECT_TRUE(again[0].grad().defined());
}

/// One for each expert of a fused tensor: of matrices, or of biases, which lie apart.
std::int64_t parts_of(const at::Tensor& value) {
  const bool is_of_experts =
      value.dim() == 3 ? value.size(1) > 1 : value.dim() == 2 && value.stride(0) != value.size(1);
  return is_of_experts ? value.size(0) : 1;
}

/// Of gradients that hold no numbers of this step: the first that come replace them.
void expect_replaces_gradients(const Operation& operation, const Tensors& inputs,
                               const Parameters& parameters, const at::Tensor& d_output) {
  std::deque<GradientInitialized> written;
  Parameters fresh;
  for (const Parameter& parameter : parameters) {
    written.emplace_back(parts_of(parameter.value)).set_all(Written::kNo);
    at::Tensor grad = at::empty_strided(parameter.grad.sizes(), parameter.grad.strides());
    fresh.push_back({parameter.value, grad.fill_(std::nan("")), &written.back()});
  }
  const Tensors again = leaves(inputs, inputs[0].scalar_type());
  operation(again, fresh).backward(d_output);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    SCOPED_TRACE("gradient of parameter " + std::to_string(i));
    clear_unwritten_gradient(fresh[i]);
    expect_close(fresh[i].grad, parameters[i].grad - kHeld, kFirstTolerance);
  }
}

/// The begins of a sequence's documents, and its length.
std::vector<std::int64_t> document_bounds(const Documents& documents, std::int64_t sequence) {
  std::vector<std::int64_t> bounds;
  const std::int64_t length = documents.first.size(1);
  for (std::int64_t t = 0; t < length; ++t)
    if (documents.first[sequence][t].item<std::int64_t>() == t) bounds.push_back(t);
  bounds.push_back(length);
  return bounds;
}

}  // namespace

at::Tensor numbers(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat).to(dtype);
}

Documents packed_documents(std::int64_t length) {
  const at::Tensor begins = at::zeros({2, length}, at::kByte);
  for (const std::int64_t position : {3, 4, 64, 65, 130, 140, 141})
    if (position < length) begins[0][position] = 1;
  for (const std::int64_t position : {1, 20, 199})
    if (position < length) begins[1][position] = 1;
  return documents_from(begins);
}

at::Tensor by_document(const Documents& documents, const Tensors& inputs,
                       const std::function<at::Tensor(const Tensors& inputs)>& operation) {
  Tensors sequences;
  for (std::int64_t sequence = 0; sequence < inputs[0].size(0); ++sequence) {
    const std::vector<std::int64_t> bounds = document_bounds(documents, sequence);
    Tensors parts;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      Tensors part;
      for (const at::Tensor& input : inputs)
        part.push_back(input.narrow(0, sequence, 1).narrow(1, bounds[i], bounds[i + 1] - bounds[i]));
      parts.push_back(operation(part));
    }
    sequences.push_back(at::cat(parts, 1));
  }
  return at::cat(sequences);
}

Parameter parameter(const at::Tensor& value) { return {value, at::full(value.sizes(), kHeld, at::kFloat)}; }

void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  if (tolerance == 0) tolerance = actual.scalar_type() == at::kBFloat16 ? 2e-2 : 5e-6;
  const at::Tensor wanted = expected.to(at::kDouble);
  const double largest = wanted.abs().max().item<double>();
  EXPECT_LE((actual.to(at::kDouble) - wanted).abs().max().item<double>(), tolerance * largest);
}

void expect_matches(const Operation& operation, const Formula& formula, const Tensors& inputs,
                    const Parameters& parameters) {
  const at::ScalarType dtype = inputs[0].scalar_type();
  const double tolerance = dtype == at::kBFloat16 ? 2e-2 : 5e-6;
  const Tensors actual_inputs = leaves(inputs, dtype);
  const Tensors expected_inputs = leaves(inputs, at::kDouble);
  const Tensors expected_parameters = leaves(values(parameters), at::kDouble);
  const at::Tensor actual = operation(actual_inputs, parameters);
  const at::Tensor expected = formula(expected_inputs, expected_parameters);
  expect_close(actual, expected, tolerance);

  const at::Tensor d_output = numbers(actual.sizes(), actual.scalar_type(), 99);
  actual.backward(d_output);
  expected.backward(d_output.to(at::kDouble));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    EXPECT_EQ(actual_inputs[i].grad().scalar_type(), dtype);
    expect_close(actual_inputs[i].grad(), expected_inputs[i].grad(), tolerance);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    SCOPED_TRACE("gradient of parameter " + std::to_string(i));
    expect_close(parameters[i].grad - kHeld, expected_parameters[i].grad(), tolerance);
  }
  expect_replaces_gradients(operation, inputs, parameters, d_output);
  expect_works_without_gradients(operation, inputs, parameters, actual);
}

}  // namespace sluice::ops
