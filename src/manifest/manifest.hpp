// Manifest of a model: names, shapes, element types and roles of its tensors, in order. No bytes, no files,
// no ranks.
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

/// Kind of a tensor: whether it is trained, saved or computed.
enum class TensorKind : std::uint8_t {
  kParameter,  ///< trained, unless it is frozen
  /// Parameter that is float32 whatever the training type, and whole on every rank.
  kFloat32Parameter,
  kPersistentBuffer,  ///< checkpoint tensor without gradient; float32, and whole on every rank
  kComputedBuffer,    ///< tensor that every rank computes and no checkpoint has
};

/// Initial values of an untrained tensor.
enum class InitialValues : std::uint8_t {
  kByRole,  ///< ones for norms, normal numbers for other tensors
  kZeros,
  kOnes,
  kLogOfPlace,         ///< log 1, log 2, log 3 and so on, as Mamba-2 begins
  kLogOfUniform16,     ///< log u, for u uniform in (0, 16)
  kLogOfUniformFrom1,  ///< log u, for u uniform in (1, 16)
  kTimeSteps,          ///< x with softplus(x) = u, for log u uniform in (log 0.001, log 0.1)
  kUniformByColumns,   ///< uniform within 1 / sqrt(columns): Kaiming's (He et al. 2015) with a = sqrt(5)
};

/// Whether tensors of this kind are trained, unless they are frozen.
[[nodiscard]] inline bool is_parameter(TensorKind kind) {
  return kind == TensorKind::kParameter || kind == TensorKind::kFloat32Parameter;
}

/// Number of elements of a tensor of this shape: 1 for a scalar.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> shape);

/// One tensor of a model: name, shape, element type and role.
struct TensorInfo {
  std::string name;  ///< name in transformers' module tree: "model.layers.0.mlp.experts.gate_up_proj"
  std::vector<std::int64_t> shape;  ///< sizes of the dims: for example [experts, 2 x expert width, hidden]
  DType dtype = DType::kBFloat16;
  Role role = Role::kNorm;
  int layer = -1;  ///< number of the layer; -1 outside the layers
  TensorKind kind = TensorKind::kParameter;
  std::string tied_to;  ///< name of the tensor whose storage this one shares; empty if it has its own
  InitialValues initial = InitialValues::kByRole;
  /// Whether the tensor is never trained: no gradient, no optimizer state; for a tied tensor its owner
  /// decides.
  bool frozen = false;
  /// Name of the tensor to whose adapter this tensor belongs; empty for tensors of the model.
  std::string adapts{};
  double scale = 1;  ///< factor of the adapter's output

  [[nodiscard]] std::int64_t element_count() const { return sluice::element_count(shape); }
};

/// Whether a tensor is a persistent buffer that nothing moves: one that is no correction bias of a router.
[[nodiscard]] inline bool is_constant(const TensorInfo& tensor) {
  return tensor.kind == TensorKind::kPersistentBuffer && tensor.role != Role::kRouter;
}

/// Range of elements [begin, begin + count) of the manifest's tensor number `tensor`, row-major.
struct TensorRange {
  int tensor = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  [[nodiscard]] std::int64_t end() const { return begin + count; }
  bool operator==(const TensorRange&) const = default;
};

/// Rows of a tensor, whose first dimension counts rows: group g of a joined tensor has `rows` of them, from
/// row `first` + g * `rows` on.
struct JoinedRows {
  std::string_view tensor;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// What has a joined tensor as one: checkpoints, transformers' module tree, after whose names adapters are called,
/// or both.
enum class JoinedIn : std::uint8_t { kBoth, kCheckpoints, kTree };

/// A tensor of checkpoints or of transformers' module tree that the manifest has as several, or with its rows in
/// another order.
struct JoinedTensor {
  std::string name;  ///< published name in plain_name() form
  std::vector<std::int64_t> shape;
  /// Ranges of manifest tensors, in the order of the published tensor's elements, as many as it has.
  std::vector<TensorRange> ranges;
  JoinedIn in = JoinedIn::kBoth;
};

/// Parts of a published checkpoint that the model does not use.
enum class ForeignPart : std::uint8_t { kVisionTower, kMultiTokenPrediction, kIndexer };

/// Tensors of a model in the order of its module tree, and how checkpoints publish them.
class ParameterManifest {
 public:
  /// Appends a tensor. Error(kInternal) for a name that exists already, or a tie to an unknown tensor or one
  /// of another shape.
  void add(TensorInfo tensor);

  /// Freezes a tensor, or the tensor whose storage it shares.
  void freeze(int index);

  void add_foreign_part(ForeignPart part) { foreign_parts_.push_back(part); }
  [[nodiscard]] bool has_foreign_part(ForeignPart part) const;
  /// Sets the numbers of layers that checkpoints may hold for multi-token prediction.
  void set_prediction_layers(Range layers) { prediction_layers_ = layers; }
  /// Whether a plain name belongs to a tensor of a layer for multi-token prediction.
  [[nodiscard]] bool is_in_prediction_layer(std::string_view name) const;
  /// Sets the names of a wrapper around the language model, under which checkpoints are written: `prefix`
  /// replaces "model.", and `outer` precedes all other names.
  void set_published_prefix(std::string prefix, std::string outer = "") {
    published_prefix_ = tree_prefix_ = std::move(prefix);
    published_outer_ = tree_outer_ = std::move(outer);
  }
  /// Sets what replaces "model.", and what precedes all other names, in checkpoints alone, where transformers renames
  /// these as it loads and saves.
  void set_renamed_prefix(std::string prefix, std::string outer = "") {
    published_prefix_ = std::move(prefix);
    published_outer_ = std::move(outer);
  }
  /// Sets the spelling of router and experts in which checkpoints are written.
  void set_published_experts(const ExpertSpelling& spelling) { published_experts_ = spelling; }
  /// Sets the spelling of router and experts in transformers' module tree.
  void set_tree_experts(const ExpertSpelling& spelling) { tree_experts_ = spelling; }

  /// Sets the end of the names of those weights that PEFT refuses to adapt in models of this family.
  void set_refused_by_peft(std::string_view end) { refused_by_peft_ = end; }
  [[nodiscard]] bool is_refused_by_peft(std::string_view weight) const {
    return !refused_by_peft_.empty() && weight.ends_with(refused_by_peft_);
  }

  /// Joins tensors that were added before: checkpoints, the module tree or both hold one tensor `name` in their
  /// place, which concatenates, for each of `groups` in turn, the rows of that group from each of `parts`. All rows
  /// of the parts must be in some joined tensor; one that ranks hold whole is joined with no other. Error(kInternal)
  /// for rows that do not exist, or tensors of different roles or layers.
  void add_joined(std::string name, std::int64_t groups, std::span<const JoinedRows> parts,
                  JoinedIn in = JoinedIn::kBoth);
  /// Lets checkpoints call a joined tensor `other` as well.
  void add_other_name(std::string other, const std::string& joined) {
    joined_index_.emplace(std::move(other), joined_index_.at(joined));
  }
  [[nodiscard]] const std::vector<JoinedTensor>& joined() const { return joined_; }
  [[nodiscard]] const JoinedTensor* find_joined(std::string_view name) const;
  /// The first joined tensor that has rows of a tensor, given by its index; null for a tensor that is
  /// published by itself.
  [[nodiscard]] const JoinedTensor* joined_with(int tensor) const;
  /// joined_with() for what adapters call the tensor; null for one that transformers' module tree has by itself.
  [[nodiscard]] const JoinedTensor* joined_in_tree(int tensor) const;

  /// Makes checkpoints hold all experts of a layer in two tensors, in which each expert's matrix is the
  /// transpose of the manifest's: [E, H, 2I] and [E, I, H]. Codes of quantised experts are not transposed.
  void set_transposed_experts() { transposed_experts_ = true; }
  [[nodiscard]] bool has_transposed_experts() const { return transposed_experts_; }

  /// Makes checkpoints hold all experts of a layer in two tensors, which have no name for a single expert's.
  void set_fused_experts() { fused_experts_ = true; }
  /// Makes checkpoints hold the gates of all experts of a layer in one tensor, their ups and downs in others:
  /// [E, I, H] twice, and [E, H, I].
  void set_experts_by_projection() { fused_experts_ = experts_by_projection_ = true; }
  [[nodiscard]] bool has_experts_by_projection() const { return experts_by_projection_; }
  /// Whether checkpoints always hold all experts of a layer in one tensor, or one for each projection.
  [[nodiscard]] bool has_fused_experts() const { return fused_experts_ || transposed_experts_; }

  /// Name of a tensor of the text model in the module tree of its wrapper.
  [[nodiscard]] std::string wrapped_name(std::string name) const;
  /// Name of a router's or an expert's tensor in transformers' module tree; other names stay as they are.
  [[nodiscard]] std::string tree_name(std::string name) const;
  /// Name of a tensor in published checkpoints.
  [[nodiscard]] std::string published_name(std::string name) const;
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const TensorInfo& operator[](int index) const {
    return tensors_[static_cast<std::size_t>(index)];
  }
  /// Index of the tensor with this name; nothing if there is none.
  [[nodiscard]] std::optional<int> find(std::string_view name) const;

  /// Number of elements of all parameters, ties counted once.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Number of elements of all trained parameters, ties counted once.
  [[nodiscard]] std::int64_t trained_parameter_count() const;
  /// Tensors that own storage in the ranks' shards: parameters, ties left out, and those that ranks hold whole.
  [[nodiscard]] std::vector<int> stored_tensors() const;
  /// Tensors that every rank holds whole, in float32: persistent buffers; behind them float32 parameters, the
  /// frozen ones first.
  [[nodiscard]] std::vector<int> whole_tensors() const;
  /// Indices of the tensors that a checkpoint of the model has: all but adapters.
  [[nodiscard]] std::vector<int> checkpoint_tensors() const;
  /// Indices of the stored tensors that training changes.
  [[nodiscard]] std::vector<int> trained_tensors() const;

  /// Line with everything about a tensor that must be equal on all ranks: the value of an agreement entry.
  [[nodiscard]] static std::string canonical_value(const TensorInfo& tensor);
  /// Digest of all canonical lines in order. Independent of the world size.
  [[nodiscard]] Digest structure_hash() const;
  /// Digest of the names and shapes of the model's tensors, without adapters: the same for any dtype, and whatever is
  /// trained.
  [[nodiscard]] Digest model_hash() const;

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
  std::string published_prefix_ = "model.", tree_prefix_ = "model.", published_outer_, tree_outer_;
  std::string refused_by_peft_;
  ExpertSpelling published_experts_ = kPlainExperts, tree_experts_ = kPlainExperts;
  bool transposed_experts_ = false, fused_experts_ = false, experts_by_projection_ = false;
};

}  // namespace sluice
