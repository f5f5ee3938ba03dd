// Manifest of a model: names, shapes, element types and roles, in order. No bytes, no files, no ranks.
#pragma once

#include "base/digest.hpp"
#include "base/dtype.hpp"
#include "base/range.hpp"
#include "manifest/spelling.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Role of a tensor in the model, which decides its initial values, its rank's share and its optimizer state.
enum class Role : std::uint8_t {
  kEmbedding,
  kAttention,
  kLinearAttention,
  kRouter,
  kExpert,
  kSharedExpert,
  kDenseMlp,
  kNorm,
  kHead,
};
[[nodiscard]] std::string_view name_of(Role role);

/// Kind of a tensor: whether it is trained, saved, or computed.
enum class TensorKind : std::uint8_t {
  kParameter,         ///< trained, unless it is frozen
  kPersistentBuffer,  ///< checkpoint tensor without gradient; float32, and whole on every rank
  kComputedBuffer,    ///< never in the checkpoint; every rank computes it
};

/// Initial values of an untrained tensor.
enum class InitialValues : std::uint8_t {
  kByRole,  ///< ones for norms, else normal numbers
  kZeros,
  kOnes,
  kLogOfUniform16,    ///< log u for u uniform in (0, 16)
  kUniformByColumns,  ///< uniform within 1 / sqrt(columns): Kaiming's (He et al. 2015) with a = sqrt(5)
};

/// Elements of a tensor of that shape: 1 for a scalar.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> shape);

/// One tensor of a model: name, shape, element type and role.
struct TensorInfo {
  std::string name;  ///< transformers' module-tree name: "model.layers.0.mlp.experts.gate_up_proj"
  std::vector<std::int64_t> shape;  ///< e.g. [experts, 2 x expert width, hidden]
  DType dtype = DType::kBFloat16;
  Role role = Role::kNorm;
  int layer = -1;  ///< number of the layer; -1 outside the layers
  TensorKind kind = TensorKind::kParameter;
  std::string tied_to;  ///< name of the tensor whose storage this one shares; empty for none
  InitialValues initial = InitialValues::kByRole;
  /// Never trained: no gradient, no optimizer state; for a tied tensor its owner decides.
  bool frozen = false;
  std::string adapts{};  ///< name of the tensor that this one is part of the adapter of; empty for none
  double scale = 1;      ///< factor of the adapter's output

  [[nodiscard]] std::int64_t element_count() const { return sluice::element_count(shape); }
};

/// Elements [begin, begin + count) of the manifest's tensor number `tensor`, row-major.
struct TensorRange {
  int tensor = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  [[nodiscard]] std::int64_t end() const { return begin + count; }
  bool operator==(const TensorRange&) const = default;
};

/// Consecutive rows of a tensor, the first dimension of which counts rows: group g of a joined tensor takes
/// `rows` of them, from row `first` + g * `rows` on.
struct JoinedRows {
  std::string_view tensor;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// A tensor of checkpoints that the manifest has as several, or with its rows in another order.
struct JoinedTensor {
  std::string name;  ///< published name, as plain_name() gives it
  std::vector<std::int64_t> shape;
  std::vector<TensorRange>
      ranges;  ///< elements of manifest tensors, in the order of the published tensor's; as many as it has
};

/// Parts that a published checkpoint may hold and that the model does without.
enum class ForeignPart : std::uint8_t { kVisionTower, kMultiTokenPrediction, kIndexer };

/// Tensors of a model in the order of its module tree, and how checkpoints publish them.
class ParameterManifest {
 public:
  /// Appends. Error(kInternal) for a name that is already there or a tie to an unknown tensor or another
  /// shape.
  void add(TensorInfo tensor);

  /// Freezes a tensor, or the one whose storage it shares.
  void freeze(int index);

  void add_foreign_part(ForeignPart part) { foreign_parts_.push_back(part); }
  [[nodiscard]] bool has_foreign_part(ForeignPart part) const;
  /// Checkpoints may hold layers of these numbers, which are for multi-token prediction.
  void set_prediction_layers(Range layers) { prediction_layers_ = layers; }
  /// Whether a plain name is that of a tensor in one of them.
  [[nodiscard]] bool is_in_prediction_layer(std::string_view name) const;
  /// Checkpoints are written with `prefix` in place of "model.", as a wrapper around the language model names
  /// it, and with `outer` before all other names.
  void set_published_prefix(std::string prefix, std::string outer = "") {
    published_prefix_ = std::move(prefix);
    outer_prefix_ = std::move(outer);
  }
  /// Checkpoints are written with the router and the experts in this spelling.
  void set_published_experts(const ExpertSpelling& spelling) { published_experts_ = spelling; }

  /// Checkpoints are written with a tensor `name` in place of those that its rows are of, which have been
  /// added: for each of `groups` in turn, the rows of that group of each of `parts`. All rows of these
  /// tensors are in one joined tensor or another. Error(kInternal) for rows that are not there, or tensors of
  /// unlike roles or layers.
  void add_joined(std::string name, std::int64_t groups, std::span<const JoinedRows> parts);
  [[nodiscard]] const std::vector<JoinedTensor>& joined() const { return joined_; }
  [[nodiscard]] const JoinedTensor* find_joined(std::string_view name) const;
  /// The first joined tensor that has rows of the tensor of that index; null for one that is published by
  /// itself.
  [[nodiscard]] const JoinedTensor* joined_with(int tensor) const;

  /// Checkpoints are written with all experts of a layer in two tensors alone, in which each expert's matrix
  /// is the transpose of the manifest's: [E, H, 2I] and [E, I, H]. Their codes, where they are quantised, are
  /// not transposed.
  void set_transposed_experts() { transposed_experts_ = true; }
  [[nodiscard]] bool has_transposed_experts() const { return transposed_experts_; }

  /// A name of the text model in the module tree of the wrapper around it.
  [[nodiscard]] std::string wrapped_name(std::string name) const;
  /// Name of a tensor in published checkpoints.
  [[nodiscard]] std::string published_name(std::string name) const;
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const TensorInfo& operator[](int index) const {
    return tensors_[static_cast<std::size_t>(index)];
  }
  /// Index of the tensor of that name.
  [[nodiscard]] std::optional<int> find(std::string_view name) const;

  /// Elements of all parameters, ties counted once.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Elements of those that are trained.
  [[nodiscard]] std::int64_t trained_parameter_count() const;
  /// Tensors that own storage in the ranks' shards: parameters, ties left out.
  [[nodiscard]] std::vector<int> stored_tensors() const;
  [[nodiscard]] std::vector<int> persistent_buffers() const;
  /// Indices of the tensors that a checkpoint of the model has: all but adapters.
  [[nodiscard]] std::vector<int> checkpoint_tensors() const;
  /// Indices of the tensors that training changes.
  [[nodiscard]] std::vector<int> trained_tensors() const;

  /// One line a tensor: everything that must be equal on all ranks. Value part of an agreement entry.
  [[nodiscard]] static std::string canonical_value(const TensorInfo& tensor);
  /// Digest of all canonical lines in order. Independent of the world size.
  [[nodiscard]] Digest structure_hash() const;

 private:
  template <class Holds>
  [[nodiscard]] std::vector<int> tensors_that(Holds holds) const;

  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, int> index_;
  std::vector<JoinedTensor> joined_;
  std::unordered_map<std::string, std::size_t> joined_index_;
  std::unordered_map<int, std::size_t> joined_by_tensor_;
  std::vector<ForeignPart> foreign_parts_;
  Range prediction_layers_;
  std::string published_prefix_ = "model.", outer_prefix_;
  ExpertSpelling published_experts_ = kPlainExperts;
  bool transposed_experts_ = false;
};

}  // namespace sluice
