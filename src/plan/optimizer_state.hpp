// Description of an optimizer's state, from which memory is planned, allocated and saved.
#pragma once

#include "base/dtype.hpp"
#include "base/optimizer_mode.hpp"
#include "manifest/manifest.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// Arrays that optimizers keep for a weight.
enum class StateArray : std::uint8_t {
  kMaster,       ///< bits of the master weight that the weight lacks
  kFirst,        ///< first moment
  kFirstScales,  ///< scales of the first moment, one per block of 8-bit codes
  kSecond,       ///< second moment
  kSecondScales,
  kRow,     ///< mean of squared gradients over a row
  kColumn,  ///< mean of squared gradients over a column; of a vector the second moment
};
inline constexpr std::size_t kStateArrays = 7;
[[nodiscard]] std::string_view name_of(StateArray array);

/// Elements of the weight that one number of a state array stands for.
enum class StateGrain : std::uint8_t { kElement, kBlock, kRow, kColumn };

/// One array of a matrix's state: its format and size.
struct StatePart {
  StateArray array = StateArray::kFirst;
  DType dtype = DType::kFloat32;
  StateGrain grain = StateGrain::kElement;
};

/// Shape of a matrix: a tensor's last two dimensions, or those of one expert; a vector is one row.
struct MatrixShape {
  std::int64_t rows = 1, columns = 1;
  [[nodiscard]] bool is_vector() const { return rows == 1; }
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};
/// Shape of a tensor's matrix; for fused experts that of one expert. Tensors whose slices are single rows (a
/// convolution's) are vectors.
[[nodiscard]] MatrixShape matrix_shape(const TensorInfo& tensor);

/// Whether weight decay applies to a tensor: not to a vector, such as a bias or a norm, not to tensors that
/// have one for each expert, and to no float32 parameter. The shape of its state does not decide: a matrix of
/// one row decays, and so does a convolution.
[[nodiscard]] bool is_decayed(const TensorInfo& tensor);

/// Whether an optimizer keeps state for a tensor, because it trains it.
[[nodiscard]] inline bool has_state(const TensorInfo& tensor) {
  return is_parameter(tensor.kind) && !tensor.frozen;
}

/// Formats in which one tensor's state is kept.
struct TensorState {
  MasterFormat master = MasterFormat::kFloat32;
  StateFormat state = StateFormat::kFloat32;
  std::vector<StatePart> parts;
};

/// Describes how a tensor's state is kept. Routers, norms, vectors and other small tensors, less than a
/// thousandth of a model, keep float32 in every mode. `training` is the training type; float32 weights are
/// their own master.
[[nodiscard]] TensorState describe_state(const OptimizerMode& mode, DType training, const TensorInfo& tensor);

/// Count of numbers in a part for `elements` of a matrix, which are whole blocks and, for a part with row
/// state, whole rows. 0 for no elements.
[[nodiscard]] std::int64_t part_count(const StatePart& part, const MatrixShape& matrix,
                                      std::int64_t elements);

/// Alignment in bytes of each array of a matrix.
inline constexpr std::int64_t kStateAlignment = 64;
/// Bytes of all parts for `elements` of a matrix, each rounded up to a multiple of kStateAlignment.
[[nodiscard]] std::int64_t state_bytes(std::span<const StatePart> parts, const MatrixShape& matrix,
                                       std::int64_t elements);

}  // namespace sluice
