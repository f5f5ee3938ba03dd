#include "shard/flat_layout.hpp"

#include "base/error.hpp"
#include "base/round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

/// Tensors begin at multiples of this many elements: 64 bytes of bfloat16, what vector loads like.
constexpr std::int64_t kAlignment = 32;

/// Parts of the forward pass, in its order; a head by rows is a part of its own before the final norm.
enum class Part : std::uint8_t { kEmbedding, kLayers, kHeadByRows, kFinal };

/// Sort key of a unit: its place in the forward pass, which also identifies the unit.
struct UnitKey {
  Part part = Part::kEmbedding;
  int layer = -1;
  bool experts = false;
  bool frozen = false;
  bool stored = false;
  auto operator<=>(const UnitKey&) const = default;
};

/// Whether a tensor has a row for each token of the vocabulary: the head, and matrix B of its adapter.
bool has_rows_of_head(const TensorInfo& tensor) {
  return tensor.role == Role::kHead && (tensor.adapts.empty() || tensor.initial == InitialValues::kZeros);
}

UnitKey unit_of(const TensorInfo& tensor, bool stored, Vocabulary vocabulary) {
  const bool frozen = tensor.frozen || stored;
  if (tensor.layer >= 0) return {Part::kLayers, tensor.layer, tensor.role == Role::kExpert, frozen, stored};
  const bool is_by_rows = vocabulary == Vocabulary::kByRows && has_rows_of_head(tensor);
  const Part behind_layers = is_by_rows ? Part::kHeadByRows : Part::kFinal;
  return {tensor.role == Role::kEmbedding ? Part::kEmbedding : behind_layers, -1, false, frozen, stored};
}

UnitKind kind_of(const UnitKey& key) {
  if (key.part == Part::kEmbedding) return UnitKind::kEmbedding;
  if (key.part == Part::kHeadByRows) return UnitKind::kHead;
  if (key.part == Part::kFinal) return UnitKind::kFinal;
  return key.experts ? UnitKind::kExperts : UnitKind::kDense;
}

std::string name_of(const UnitKey& key) {
  const std::string_view frozen = key.stored ? ".stored" : key.frozen ? ".frozen" : "";
  if (key.part == Part::kEmbedding) return fmt::format("embedding{}", frozen);
  if (key.part == Part::kHeadByRows) return fmt::format("head{}", frozen);
  if (key.part == Part::kFinal) return fmt::format("final{}", frozen);
  return fmt::format("layers.{}.{}{}", key.layer, key.experts ? "experts" : "dense", frozen);
}

std::int64_t row_elements_of(const TensorInfo& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.back();
}

/// Granule of a tensor, in elements: shards are cut at multiples of it, between rows and blocks alike.
std::int64_t granule_of(const TensorInfo& tensor, std::int64_t state_block) {
  return tensor.shape.size() >= 2 ? std::lcm(row_elements_of(tensor), state_block) : kAlignment;
}

/// Layout of plain tensors, one after the other.
FlatLayout lay_out_dense(const UnitKey& key, const std::vector<int>& tensors,
                         const ParameterManifest& manifest, std::int64_t state_block) {
  std::vector<Placement> placements;
  std::int64_t offset = 0;
  for (const int tensor : tensors) {
    const TensorInfo& info = manifest[tensor];
    const std::int64_t elements = info.element_count();
    placements.push_back({tensor, offset, 1, elements, elements, granule_of(info, state_block),
                          row_elements_of(info), !info.adapts.empty()});
    offset += round_up(elements, kAlignment);
  }
  return {kind_of(key),          key.layer, name_of(key),
          std::move(placements), offset,    UnitTraining{!key.frozen},
          UnitForm{key.stored}};
}

/// Layout of fused tensors, expert by expert: block e of each tensor lies in stride e.
FlatLayout lay_out_experts(const UnitKey& key, const std::vector<int>& tensors,
                           const ParameterManifest& manifest, std::int64_t state_block) {
  const std::int64_t experts = manifest[tensors.front()].shape.front();
  std::int64_t stride = 0;
  std::vector<Placement> placements;
  for (const int tensor : tensors) {
    const TensorInfo& info = manifest[tensor];
    SLUICE_ASSERT(info.shape.front() == experts, "tensor {} has another number of experts than tensor {}",
                  info.name, manifest[tensors.front()].name);
    const std::int64_t block = info.element_count() / experts;
    placements.push_back({tensor, stride, experts, block, 0, granule_of(info, state_block),
                          row_elements_of(info), !info.adapts.empty()});
    stride += round_up(block, kAlignment);
  }
  for (Placement& placement : placements) placement.block_stride = stride;
  return {kind_of(key),          key.layer,        name_of(key),
          std::move(placements), stride * experts, UnitTraining{!key.frozen},
          UnitForm{key.stored}};
}

/// The largest cut position of a tensor that is not above `position`, in elements of the unit's buffer; 0 if
/// the tensor has none.
std::int64_t cut_in(const Placement& placement, std::int64_t position) {
  if (position < placement.offset) return 0;
  const std::int64_t block =
      std::min((position - placement.offset) / placement.block_stride, placement.blocks - 1);
  const std::int64_t begin = placement.offset + block * placement.block_stride;
  const std::int64_t inside = std::min(position - begin, placement.block_elements);
  return inside == placement.block_elements ? begin + inside
                                            : begin + inside / placement.granule * placement.granule;
}

}  // namespace

Placement::Share Placement::share_of(Range unit_elements) const {
  const std::int64_t begin = unit_elements.begin - offset, end = unit_elements.end - offset;
  const std::int64_t stride = std::max(block_stride, block_elements);
  if (end <= 0 || begin >= blocks * stride) return {};
  const std::int64_t first = std::max<std::int64_t>(begin, 0) / stride;
  const std::int64_t last = std::min(blocks, divide_up(end, stride)) - 1;
  const auto part_of = [&](std::int64_t block) {
    const Range part = common({begin - block * stride, end - block * stride}, {0, block_elements});
    return std::max<std::int64_t>(part.count(), 0);
  };
  Share share{part_of(first), std::max<std::int64_t>(last - first - 1, 0), last > first ? part_of(last) : 0};
  for (std::int64_t* cut : {&share.first, &share.last}) {
    if (*cut != block_elements) continue;
    ++share.whole;
    *cut = 0;
  }
  return share;
}

/// The strides are row-major inside a block; the first dim steps from block to block.
std::vector<std::int64_t> Placement::strides(const std::vector<std::int64_t>& shape) const {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  if (blocks > 1) strides[0] = block_stride;
  return strides;
}

const Placement& FlatLayout::placement_of(int tensor) const {
  const auto found = std::ranges::find(placements_, tensor, &Placement::tensor);
  SLUICE_ASSERT(found != placements_.end(), "unit {} does not hold tensor {}", name_, tensor);
  return *found;
}

void FlatLayout::for_each_run(const Placement& placement, std::int64_t begin, std::int64_t count,
                              const std::function<void(const Run&)>& visit) {
  for (const std::int64_t end = begin + count; begin < end;) {
    const std::int64_t length =
        std::min(end - begin, placement.block_elements - begin % placement.block_elements);
    visit({begin, placement.place_of(begin), length});
    begin += length;
  }
}

void FlatLayout::for_each_part(Range elements,
                               const std::function<void(const Placement&, const Run&)>& visit) const {
  for (const Placement& placement : placements_)
    for (std::int64_t first = 0; first < placement.elements(); first += placement.block_elements) {
      const std::int64_t begin = placement.place_of(first);
      const Range part = common({begin, begin + placement.block_elements}, elements);
      if (part.count() > 0) visit(placement, {first + part.begin - begin, part.begin, part.count()});
    }
}

std::int64_t FlatLayout::cut_at_or_below(std::int64_t position) const {
  std::int64_t cut = 0;
  for (const Placement& placement : placements_) cut = std::max(cut, cut_in(placement, position));
  return cut;
}

std::int64_t UnitLayouts::elements() const {
  std::int64_t total = 0;
  for (const FlatLayout& unit : units) total += unit.elements();
  return total;
}

std::int64_t UnitLayouts::buffer_elements() const {
  return buffers.empty() ? 0 : buffers.back().offset + buffers.back().count;
}

const BufferPlace* UnitLayouts::buffer_of(int tensor) const {
  const auto found = std::ranges::find(buffers, tensor, &BufferPlace::tensor);
  return found == buffers.end() ? nullptr : &*found;
}

bool UnitLayouts::is_by_rows(int unit) const {
  const UnitKind kind = units[static_cast<std::size_t>(unit)].kind();
  return vocabulary == Vocabulary::kByRows && (kind == UnitKind::kEmbedding || kind == UnitKind::kHead);
}

std::int64_t UnitLayouts::rows_between_cuts() const {
  std::int64_t rows = 1;
  for (int unit = 0; unit < static_cast<int>(units.size()); ++unit) {
    if (!is_by_rows(unit)) continue;
    const Placement& table = units[static_cast<std::size_t>(unit)].placements().front();
    rows = std::lcm(rows, table.granule / table.row_elements);
  }
  return rows;
}

UnitLayouts make_unit_layouts(const ParameterManifest& manifest, std::int64_t state_block,
                              std::span<const int> stored, Vocabulary vocabulary) {
  std::map<UnitKey, std::vector<int>> members;
  for (const int tensor : manifest.stored_tensors())
    members[unit_of(manifest[tensor], std::ranges::binary_search(stored, tensor), vocabulary)].push_back(
        tensor);

  UnitLayouts layouts;
  layouts.vocabulary = vocabulary;
  layouts.homes.resize(manifest.tensors().size());
  for (const auto& [key, tensors] : members) {
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i)
      layouts.homes[static_cast<std::size_t>(tensors[i])] = {static_cast<int>(layouts.units.size()), i};
    layouts.units.push_back(key.experts ? lay_out_experts(key, tensors, manifest, state_block)
                                        : lay_out_dense(key, tensors, manifest, state_block));
  }
  for (std::size_t i = 0; i < layouts.homes.size(); ++i)
    if (const std::string& owner = manifest.tensors()[i].tied_to; !owner.empty())
      layouts.homes[i] = layouts.homes[static_cast<std::size_t>(*manifest.find(owner))];
  for (const int tensor : manifest.whole_tensors()) {
    const TensorInfo& info = manifest[tensor];
    layouts.buffers.push_back({tensor, layouts.buffer_elements(), info.element_count(), info.layer});
    const bool is_trained = is_parameter(info.kind) && !info.frozen;
    if (!is_trained) layouts.trained_buffers.begin = layouts.buffer_elements();
  }
  layouts.trained_buffers.end = layouts.buffer_elements();
  return layouts;
}

}  // namespace sluice
