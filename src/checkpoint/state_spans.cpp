#include "checkpoint/state_spans.hpp"

#include "base/round.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace sluice {
namespace {

void list_weights(const ParameterManifest& manifest, const ShardArena& weights, std::vector<StateSpan>& out) {
  for (const int tensor : manifest.trained_tensors()) {
    const int unit = weights.plan().layouts().unit_of(tensor);
    weights.plan().owned_runs(tensor, weights.rank(), [&](const ShardPlan::OwnedRun& run) {
      out.push_back({.tensor = tensor,
                     .unit = unit,
                     .array = kWeightsArray,
                     .dtype = weights.dtype(),
                     .numbers = {run.tensor_begin, run.tensor_begin + run.count},
                     .data = weights.data() + run.arena_begin * size_of(weights.dtype())});
    });
  }
}

/// Lists persistent buffers and float32 parameters: they are few, every rank has them, and the first rank's are
/// saved.
void list_buffers(const ShardArena& weights, std::vector<StateSpan>& out) {
  const UnitLayouts& layouts = weights.plan().layouts();
  for (const BufferPlace& buffer : layouts.buffers)
    out.push_back({.tensor = buffer.tensor,
                   .unit = static_cast<int>(layouts.units.size()),
                   .array = kWeightsArray,
                   .dtype = DType::kFloat32,
                   .numbers = {0, buffer.count},
                   .data = reinterpret_cast<std::byte*>(weights.buffers() + buffer.offset),
                   .is_copy = weights.rank() != 0});
}

/// Numbers of an array's part that belong to what a rank owns of a matrix, counted over the whole tensor.
Range numbers_of(const StatePart& part, const MatrixState& matrix) {
  // Number of matrices of the tensor before this one.
  const std::int64_t before = std::max<std::int64_t>(matrix.expert, 0);
  std::int64_t whole = 0, first = 0;
  switch (part.grain) {
    case StateGrain::kElement:
      whole = matrix.shape.elements();
      first = matrix.owned.begin;
      break;
    case StateGrain::kBlock:
      whole = divide_up(matrix.shape.elements(), kStateBlock);
      first = matrix.owned.begin / kStateBlock;
      break;
    case StateGrain::kRow:
      whole = matrix.shape.rows;
      first = matrix.owned.begin / matrix.shape.columns;
      break;
    // Elements of a vector; for a matrix its columns, all of them on each rank that has rows.
    case StateGrain::kColumn:
      whole = matrix.shape.columns;
      first = matrix.shape.is_vector() ? matrix.owned.begin : 0;
      break;
  }
  const std::int64_t begin = before * whole + first;
  return {begin, begin + part_count(part, matrix.shape, matrix.owned.count())};
}

void list_matrix(const TensorInfo& tensor, const MatrixState& matrix, int unit, const ShardArena& weights,
                 const OptimizerBlock& optimizer, std::vector<StateSpan>& out) {
  for (const StatePart& part : describe_state(optimizer.mode, weights.dtype(), tensor).parts) {
    const bool is_shared = part.grain == StateGrain::kColumn && !matrix.shape.is_vector();
    out.push_back({.tensor = matrix.tensor,
                   .unit = unit,
                   .array = name_of(part.array),
                   .dtype = part.dtype,
                   .numbers = numbers_of(part, matrix),
                   .data = optimizer.block + matrix.offset(part.array),
                   .is_copy = matrix.is_whole ? weights.rank() != 0 : is_shared && matrix.owned.begin > 0});
  }
}

/// Sort key of arrays: weights first, then the state in the order of StateArray.
int order_of(std::string_view array) {
  for (std::size_t i = 0; i < kStateArrays; ++i)
    if (name_of(static_cast<StateArray>(i)) == array) return static_cast<int>(i) + 1;
  return 0;
}

}  // namespace

std::vector<StateSpan> list_state(const ParameterManifest& manifest, const ShardArena& weights,
                                  const OptimizerBlock& optimizer) {
  std::vector<StateSpan> spans;
  list_weights(manifest, weights, spans);
  list_buffers(weights, spans);
  for (int unit = 0; optimizer.layout != nullptr && unit < optimizer.layout->units(); ++unit)
    for (const MatrixState& matrix : optimizer.layout->matrices(unit))
      if (matrix.owned.count() > 0)
        list_matrix(manifest[matrix.tensor], matrix, unit, weights, optimizer, spans);
  std::ranges::sort(spans, {}, [](const StateSpan& span) {
    return std::tuple(span.unit, span.tensor, order_of(span.array), span.numbers.begin);
  });
  return spans;
}

void order_backward(std::vector<StateSpan>& spans) {
  std::ranges::stable_sort(spans, std::greater(), &StateSpan::unit);
}

}  // namespace sluice
