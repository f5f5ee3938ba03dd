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
enum class UnitKind : std::uint8_t { kEmbedding, kDense, kExperts, kFinal };

/// Place of one tensor in a unit's buffer, in elements: block b (of `blocks` equal blocks, row-major) begins
/// at offset + b * block_stride. Plain tensors have one block; fused expert tensors have one per expert.
struct Placement {
  int tensor = 0;  ///< index in the manifest
  std::int64_t offset = 0;
  std::int64_t blocks = 1;
  std::int64_t block_elements = 0;
  std::int64_t block_stride = 0;
  std::int64_t granule = 1;       ///< cuts inside a block fall on multiples of this: one row or several
  std::int64_t row_elements = 1;  ///< elements of a row: the tensor's last dim
  bool is_adapter = false;        ///< whether it is part of an adapter, which no checkpoint of the model has

  [[nodiscard]] std::int64_t elements() const { return blocks * block_elements; }
  /// Place of one of them.
  [[nodiscard]] std::int64_t place_of(std::int64_t element) const {
    return offset + element / block_elements * block_stride + element % block_elements;
  }
  /// What a range of the unit's buffer has of the blocks: elements of the first one and of the last one that
  /// it cuts, and the number of those that it has whole.
  struct Share {
    std::int64_t first = 0, whole = 0, last = 0;
  };
  [[nodiscard]] Share share_of(Range unit_elements) const;
  /// Elements between neighbours along each dim of the tensor, whose shape is given, in the unit's buffer.
  [[nodiscard]] std::vector<std::int64_t> strides(const std::vector<std::int64_t>& shape) const;
};

/// A run of consecutive elements: of a tensor (tensor_begin) and of its unit's buffer (unit_begin).
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
  /// Whether training changes it: a unit is frozen as a whole or not at all.
  [[nodiscard]] bool is_trained() const { return training_ == UnitTraining::kTrained; }
  /// Whether shards keep it as codes and scales (StoredLayout); places are counted in elements all the same.
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

  /// Calls `visit` with what elements of the buffer are of which tensors; what lies between these is left
  /// out.
  void for_each_part(Range elements, const std::function<void(const Placement&, const Run&)>& visit) const;

  /// Calls visit(begin, count) with what lies between tensors in the first `elements` of the buffer: all of
  /// it, or some experts.
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

  /// The largest place a shard may be cut that is not above `position`: a granule boundary or the border of a
  /// block.
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

/// A persistent buffer among all of them, one after the other: what every rank holds whole, in float32.
struct BufferPlace {
  int tensor = 0;  ///< index in the manifest
  std::int64_t offset = 0, count = 0;
};

/// All units of a model, in the order of the forward pass, and where each tensor is.
struct UnitLayouts {
  std::vector<FlatLayout> units;
  std::vector<TensorHome> homes;     ///< one per manifest tensor; unit -1 for buffers
  std::vector<BufferPlace> buffers;  ///< buffers in the manifest's order
  [[nodiscard]] std::int64_t elements() const;
  /// Placement in its unit of a tensor that is no buffer.
  [[nodiscard]] const Placement& placement_of(int tensor) const {
    const TensorHome& home = homes[static_cast<std::size_t>(tensor)];
    return units[static_cast<std::size_t>(home.unit)].placements()[static_cast<std::size_t>(home.placement)];
  }
  [[nodiscard]] int unit_of(int tensor) const { return homes[static_cast<std::size_t>(tensor)].unit; }
  /// Elements of all persistent buffers.
  [[nodiscard]] std::int64_t buffer_elements() const;
  /// Null for a tensor that is no persistent buffer.
  [[nodiscard]] const BufferPlace* buffer_of(int tensor) const;
};

/// Groups by role and layer: embedding; per layer its dense part and its experts; final norm with the head.
/// What is frozen of each makes a unit of its own beside what is trained. Matrices are cut between rows that
/// are also borders of blocks of `state_block` elements, counted from the matrix's first: then a shard has
/// whole blocks of 8-bit optimizer state (kStateBlock). `stored`: ascending, the tensors that
/// shards keep as codes and scales; they are frozen, and units of their own too.
[[nodiscard]] UnitLayouts make_unit_layouts(const ParameterManifest& manifest, std::int64_t state_block = 1,
                                            std::span<const int> stored = {});

}  // namespace sluice
