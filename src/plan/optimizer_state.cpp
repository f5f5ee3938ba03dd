#include "plan/optimizer_state.hpp"

#include "base/round.hpp"

namespace sluice {
namespace {

bool is_float32_parameter(const TensorInfo& tensor) { return tensor.kind == TensorKind::kFloat32Parameter; }

bool is_small(const TensorInfo& tensor) {
  return is_float32_parameter(tensor) || tensor.role == Role::kRouter || tensor.role == Role::kNorm ||
         matrix_shape(tensor).is_vector();
}

void add_moment(StateFormat format, StateArray moment, StateArray scales, DType codes,
                std::vector<StatePart>& parts) {
  switch (format) {
    case StateFormat::kFloat32:
      return parts.push_back({moment, DType::kFloat32, StateGrain::kElement});
    case StateFormat::kBFloat16:
      return parts.push_back({moment, DType::kBFloat16, StateGrain::kElement});
    case StateFormat::kInt8:
      parts.push_back({moment, codes, StateGrain::kElement});
      return parts.push_back({scales, DType::kFloat32, StateGrain::kBlock});
    case StateFormat::kFactored:
      return;
  }
}

void add_master(MasterFormat format, std::vector<StatePart>& parts) {
  if (format == MasterFormat::kFloat32)
    parts.push_back({StateArray::kMaster, DType::kInt16, StateGrain::kElement});
  if (format == MasterFormat::k24Bit)
    parts.push_back({StateArray::kMaster, DType::kInt8, StateGrain::kElement});
}

}  // namespace

std::string_view name_of(StateArray array) {
  constexpr std::array<std::string_view, kStateArrays> kNames{
      "master",   "first_moment", "first_moment_scales", "second_moment", "second_moment_scales",
      "row_mean", "column_mean"};
  return kNames[static_cast<std::size_t>(array)];
}

MatrixShape matrix_shape(const TensorInfo& tensor) {
  const std::size_t dims = tensor.shape.size();
  if (tensor.role == Role::kExpert && dims < 3) return {1, tensor.shape.back()};  // one bias for each expert
  if (tensor.role == Role::kExpert) return {tensor.shape[dims - 2], tensor.shape[dims - 1]};
  if (is_float32_parameter(tensor) || dims < 2 || tensor.shape[dims - 2] == 1)
    return {1, tensor.element_count()};
  return {tensor.element_count() / tensor.shape.back(), tensor.shape.back()};
}

bool is_decayed(const TensorInfo& tensor) {
  if (is_float32_parameter(tensor)) return false;
  const std::size_t stacked = tensor.role == Role::kExpert ? 1 : 0;
  return tensor.shape.size() - stacked >= 2;
}

TensorState describe_state(const OptimizerMode& mode, DType training, const TensorInfo& tensor) {
  const DType weights = is_float32_parameter(tensor) ? DType::kFloat32 : training;
  TensorState out{mode.master, mode.state, {}};
  if (is_small(tensor)) {
    out.master = MasterFormat::kFloat32;
    if (mode.state != StateFormat::kFactored) out.state = StateFormat::kFloat32;
  }
  if (weights == DType::kFloat32) out.master = MasterFormat::kFloat32;
  if (weights != DType::kFloat32) add_master(out.master, out.parts);
  if (out.state == StateFormat::kFactored) {
    if (!matrix_shape(tensor).is_vector())
      out.parts.push_back({StateArray::kRow, DType::kFloat32, StateGrain::kRow});
    out.parts.push_back({StateArray::kColumn, DType::kFloat32, StateGrain::kColumn});
    return out;
  }
  add_moment(out.state, StateArray::kFirst, StateArray::kFirstScales, DType::kInt8, out.parts);
  if (mode.kind == OptimizerKind::kAdamW)
    add_moment(out.state, StateArray::kSecond, StateArray::kSecondScales, DType::kUInt8, out.parts);
  return out;
}

std::int64_t part_count(const StatePart& part, const MatrixShape& matrix, std::int64_t elements) {
  if (elements == 0) return 0;
  switch (part.grain) {
    case StateGrain::kElement:
      return elements;
    case StateGrain::kBlock:
      return divide_up(elements, kStateBlock);
    case StateGrain::kRow:
      return elements / matrix.columns;
    case StateGrain::kColumn:
      // A vector may be cut anywhere, and each rank keeps the state of the elements that it owns.
      return matrix.is_vector() ? elements : matrix.columns;
  }
  return 0;
}

std::int64_t state_bytes(std::span<const StatePart> parts, const MatrixShape& matrix, std::int64_t elements) {
  std::int64_t bytes = 0;
  for (const StatePart& part : parts)
    bytes += round_up(part_count(part, matrix, elements) * size_of(part.dtype), kStateAlignment);
  return bytes;
}

}  // namespace sluice
