// Holds an operation, forward and backward, against its formula written in torch operations and float64.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"
#include "ops/threads.hpp"

#include <torch/types.h>

#include <functional>
#include <vector>

namespace sluice::ops {

using Tensors = std::vector<at::Tensor>;
using Parameters = std::vector<Parameter>;
using Operation = std::function<at::Tensor(const Tensors& inputs, const Parameters& parameters)>;
using Formula = std::function<at::Tensor(const Tensors& inputs, const Tensors& parameters)>;

inline constexpr at::ScalarType kDTypes[] = {at::kFloat, at::kBFloat16};

/// Normal numbers that are the same in each run, representable in `dtype`.
at::Tensor numbers(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat, std::uint64_t seed = 1);

/// Two sequences of that length, packed with documents of several lengths: some of one token, some longer
/// than a block of queries or a chunk of the delta rule where the sequences are.
Documents packed_documents(std::int64_t length);

/// What `operation` makes of each document alone, put together again: x's dimension 1 is cut.
at::Tensor by_document(const Documents& documents, const Tensors& inputs,
                       const std::function<at::Tensor(const Tensors& inputs)>& operation);

/// A parameter with these values and a gradient that already holds 0.5 everywhere.
Parameter parameter(const at::Tensor& value);

/// |actual - expected| <= tolerance * largest |expected| everywhere; the default tolerance is that of
/// actual's dtype.
void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance = 0);

/// Runs both on the same numbers with the same gradient of the output. Compares the output, the gradients of
/// the inputs, and what was added to the parameters' gradients; then that it replaces those that hold nothing
/// of this step. Also runs the operation without a graph and
/// without gradient tensors.
void expect_matches(const Operation& operation, const Formula& formula, const Tensors& inputs,
                    const Parameters& parameters);

}  // namespace sluice::ops
