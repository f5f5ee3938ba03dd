// Units and where each tensor lies in its unit's flat buffer. Pure arithmetic over a manifest.
//
//   unit "layers.3.dense"    | q_proj | k_proj | ... | input_layernorm | ...          tensor after tensor
//   unit "layers.3.experts"  | gate 0 | up 0 | down 0 | gate 1 | up 1 | down 1 | ...  expert by expert
//
// So gathering a unit is one collective and no copy, one expert is one range, and the fused expert tensors
// are strided views.
#pragma once

#include "base/range.hpp"
#include "manifest/manifest.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Kind of a unit.
enum class UnitKind : std::uint8_t { kEmbedding, kDense, kExperts, kHead, kFinal };

/// Place of one tensor in a unit's buffer, in elements: block b (of `blocks` equal blocks, row-major) begins
/// at offset + b * block_stride. Plain tensors have one block; fused expert tensors have one per expert.
struct Placement {
  int tensor = 0;  ///< index of the tensor in the manifest
  std::int64_t offset = 0;
  std::int64_t blocks = 1;
  std::int64_t block_elements = 0;
  std::int64_t block_stride = 0;
  /// Cuts inside a block fall on multiples of this many elements: one row or several.
  std::int64_t granule = 1;
  std::int64_t row_elements = 1;  ///< elements of a row: the size of the tensor's last dim
  /// whether the tensor is part of an adapter, which no checkpoint of the model has
  bool is_adapter = false;

  [[nodiscard]] std::int64_t elements() const { return blocks * block_elements; }
  /// Place in the unit's buffer of element `element` of the tensor.
  [[nodiscard]] std::int64_t place_of(std::int64_t element) const {
    return offset + element / block_elements * block_stride + element % block_elements;
  }
  /// How a range of the unit's buffer cuts the tensor's blocks: elements of the first and of the last block
  /// that it cuts, and the number of blocks that it has whole.
  struct Share {
    std::int64_t first = 0, whole = 0, last = 0;
  };
  [[nodiscard]] Share share_of(Range unit_elements) const;
  /// Strides of the tensor in the unit's buffer: elements between neighbours along each dim. `shape` is the
  /// tensor's.
  [[nodiscard]] std::vector<std::int64_t> strides(const std::vector<std::int64_t>& shape) const;
};

/// A run of consecutive elements: the place at which it begins in a tensor (tensor_begin) and in the unit's
/// buffer (unit_begin).
struct Run {
  std::int64_t tensor_begin = 0;
  std::int64_t unit_begin = 0;
  std::int64_t count = 0;
};

/// Whether training changes a unit.
enum class UnitTraining : bool { kFrozen, kTrained };
/// Whether shards keep a unit as numbers, or as codes and scales (StoredLayout).
enum class UnitForm : bool { kNumbers, kStored };

class FlatLayout {
 public:
  FlatLayout(UnitKind kind, int layer, std::string name, std::vector<Placement> placements,
             std::int64_t elements, UnitTraining training, UnitForm form)
      : kind_(kind),
        layer_(layer),
        name_(std::move(name)),
        placements_(std::move(placements)),
        elements_(elements),
        training_(training),
        form_(form) {}

  [[nodiscard]] UnitKind kind() const { return kind_; }
  [[nodiscard]] int layer() const { return layer_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<Placement>& placements() const { return placements_; }
  /// Whether training changes the unit: a unit is frozen as a whole or not at all.
  [[nodiscard]] bool is_trained() const { return training_ == UnitTraining::kTrained; }
  /// Whether shards keep the unit as codes and scales (StoredLayout); places are counted in elements in
  /// either case.
  [[nodiscard]] bool is_stored() const { return form_ == UnitForm::kStored; }
  /// Elements of the whole buffer, alignment gaps between tensors (zeros) included.
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] const Placement& placement_of(int tensor) const;
  /// Number of experts in a unit of experts, and the element at which expert e begins; e = experts() gives
  /// the end.
  [[nodiscard]] std::int64_t experts() const { return placements_.front().blocks; }
  [[nodiscard]] std::int64_t expert_begin(std::int64_t e) const {
    return e * placements_.front().block_stride;
  }

  /// Calls `visit` with the runs that make up elements [begin, begin + count) of a tensor, in order.
  static void for_each_run(const Placement& placement, std::int64_t begin, std::int64_t count,
                           const std::function<void(const Run&)>& visit);

  /// Calls `visit` with each tensor's part of the elements of the buffer; gaps between tensors are left out.
  void for_each_part(Range elements, const std::function<void(const Placement&, const Run&)>& visit) const;

  /// Calls visit(begin, count) with the gaps between tensors in the first `elements` elements of the buffer:
  /// all of it, or some experts.
  template <class Visit>
  void for_each_gap(std::int64_t elements, Visit visit) const {
    const std::int64_t period = kind_ == UnitKind::kExperts ? expert_begin(1) : elements_;
    for (std::int64_t first = 0; first < elements; first += period)
      for (std::size_t i = 0; i < placements_.size(); ++i) {
        const std::int64_t end = placements_[i].offset + placements_[i].block_elements;
        const std::int64_t next = i + 1 < placements_.size() ? placements_[i + 1].offset : period;
        if (next > end) visit(first + end, next - end);
      }
  }

  /// The largest position at or below `position` at which a shard may be cut: a granule boundary or the
  /// border of a block.
  [[nodiscard]] std::int64_t cut_at_or_below(std::int64_t position) const;

 private:
  UnitKind kind_;
  int layer_;
  std::string name_;
  std::vector<Placement> placements_;
  std::int64_t elements_;
  UnitTraining training_;
  UnitForm form_;
};

/// Home of a manifest tensor: its unit and placement. Ties point at the tensor whose storage they share.
struct TensorHome {
  int unit = -1;
  int placement = -1;
};

/// Place of a tensor that every rank holds whole, a persistent buffer or a float32 parameter, in float32
/// elements among all such tensors, which lie one after the other.
struct BufferPlace {
  int tensor = 0;  ///< index of the tensor in the manifest
  std::int64_t offset = 0, count = 0;
  int layer = -1;  ///< layer of the tensor; -1 outside the layers
};

/// How ranks compute with embedding and head.
enum class Vocabulary : bool {
  kGathered,  ///< Every rank computes with all rows, which ranks gather.
  kByRows,    ///< Each rank computes with the rows that it owns; the head's tensors are units of their own.
};

/// All units of a model, in the order of the forward pass, and where each tensor is.
struct UnitLayouts {
  std::vector<FlatLayout> units;
  std::vector<TensorHome> homes;  ///< home of each manifest tensor; unit -1 for buffers
  /// Places of the tensors that ranks hold whole, in the order of ParameterManifest::whole_tensors().
  std::vector<BufferPlace> buffers;
  /// Elements of the trained float32 parameters among those of `buffers`, of which they are the last.
  Range trained_buffers;
  Vocabulary vocabulary = Vocabulary::kGathered;
  /// Whether each rank computes with its own rows of a unit, which then holds one tensor.
  [[nodiscard]] bool is_by_rows(int unit) const;
  /// Rows of the vocabulary, at multiples of which all units by rows can be cut.
  [[nodiscard]] std::int64_t rows_between_cuts() const;
  [[nodiscard]] std::int64_t elements() const;
  /// Placement of a tensor in its unit; the tensor must not be one of `buffers`.
  [[nodiscard]] const Placement& placement_of(int tensor) const {
    const TensorHome& home = homes[static_cast<std::size_t>(tensor)];
    return units[static_cast<std::size_t>(home.unit)].placements()[static_cast<std::size_t>(home.placement)];
  }
  [[nodiscard]] int unit_of(int tensor) const { return homes[static_cast<std::size_t>(tensor)].unit; }
  /// Elements of all tensors that ranks hold whole.
  [[nodiscard]] std::int64_t buffer_elements() const;
  /// Place of a tensor that ranks hold whole; null for any other tensor.
  [[nodiscard]] const BufferPlace* buffer_of(int tensor) const;
};

/// Groups tensors by role and layer: embedding; per layer the dense part and the experts; final norm with the
/// head, or by rows the head before it. Frozen tensors of each group make a unit of their own beside the trained
/// ones. Matrices are cut between rows that are also borders of blocks of `state_block` elements, counted from the
/// matrix's first element: then a shard has whole blocks of 8-bit optimizer state (kStateBlock). `stored`: the
/// tensors that shards keep as codes and scales, ascending; they are frozen, and make units of their own too.
[[nodiscard]] UnitLayouts make_unit_layouts(const ParameterManifest& manifest, std::int64_t state_block = 1,
                                            std::span<const int> stored = {},
                                            Vocabulary vocabulary = Vocabulary::kGathered);

}  // namespace sluice
