// Parameters of the model as tensors over memory that changes: each is a view, made once, of this rank's part
// of its unit's buffer, and points at whatever memory the unit is bound to at the moment.
#pragma once

#include "decoder/stored/stored_room.hpp"
#include "manifest/manifest.hpp"
#include "ops/adapters/lora.hpp"
#include "ops/experts.hpp"
#include "ops/parameter.hpp"
#include "shard/expert_gradients.hpp"
#include "shard/shard_plan.hpp"

#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Whether weights are used with their LoRA adapters.
enum class Adapters : std::uint8_t { kUsed, kLeftOut };

/// Views of all parameters. All tensors of a unit share one storage; binding the unit replaces its address
/// and moves no bytes; tensors of a stored unit have matrices, no address. An unbound unit has a null address, so
/// that a use outside its time fails at once.
class ParameterViews {
 public:
  /// `manifest` and `plan` must outlive the views. All tensors have the element type `dtype`, gradients
  /// float32, all in `memory`. Fused expert tensors [E, ...] have as many experts as `rank` holds; `experts`
  /// says where their gradients lie. `stored`: where stored units have their codes and scales; it must
  /// outlive the views, which allocate room for the numbers of one expert and of one dense unit.
  ParameterViews(const ParameterManifest& manifest, const ShardPlan& plan, int rank, DType dtype,
                 MemoryKind memory, const StoredLayout* stored = nullptr,
                 ExpertGradients experts = ExpertGradients::kTogether);

  [[nodiscard]] at::Device device() const { return device_; }
  /// The views of a tensor; of a tied one, those of the tensor whose storage it shares. Error(kInternal) for
  /// unknown names.
  [[nodiscard]] const ops::Parameter& operator[](std::string_view name) const;
  /// Views of a weight, with its LoRA adapter if the manifest has one and it is not left out. `dropout` of the
  /// adapter, null for none, must outlive all graphs.
  [[nodiscard]] ops::Weight weight(std::string_view name, const ops::Dropout* dropout,
                                   Adapters adapters = Adapters::kUsed) const;

  /// View of a tensor that every rank holds whole, float32; undefined if the model has none of this name.
  [[nodiscard]] at::Tensor buffer(std::string_view name) const;

  /// Points all tensors that ranks hold whole at `buffers` (UnitLayouts::buffers), which stay the caller's.
  void bind_buffers(float* buffers);
  /// Sets the memory of the gradients of trained float32 parameters (UnitLayouts::trained_buffers), to which
  /// every contribution is added.
  void bind_whole_gradients(float* gradients);
  /// Sets the memory of a unit's values to `values`, which the caller owns: the elements that the rank holds,
  /// in the views' dtype, or the codes and scales of a stored unit.
  void bind(int unit, std::byte* values);
  /// Sets the memory of a unit's gradients to `gradients`: float32, one per element that the rank holds.
  void bind_gradients(int unit, float* gradients);
  /// Function that is called in a backward pass with experts in turn once an expert's gradients are complete,
  /// before the next expert's take their place. `expert` is counted among those that the rank holds.
  using ExpertConsumer = std::function<void(int unit, std::int64_t expert)>;
  void take_experts_in_turn(ExpertConsumer consumer) { consumer_ = std::move(consumer); }
  /// Completion that operations call for the trained unit of a tensor of experts, or of its adapter; null
  /// unless experts take turns.
  [[nodiscard]] const ops::ExpertCompletion* expert_completion(std::string_view name) const;
  void unbind(int unit);
  /// How a few rows are multiplied with stored matrices; exactly unless this is called.
  void use_products(ops::Products products);
  void unbind_gradients(int unit);

  /// Says whether a unit's gradients hold numbers of this step already, which is assumed unless this is
  /// called. If not, the first gradient of a tensor, or of an expert, replaces what is there.
  void set_written(int unit, ops::Written written);
  /// Fills a unit's bound gradients with zeros where no gradient was added since.
  void clear_unwritten(int unit);

 private:
  [[nodiscard]] const TensorHome& home_of(std::string_view name) const;
  /// Calls `visit` with the views of each tensor of a unit.
  template <class Visit>
  void for_each_view(int unit, Visit visit) const {
    for (const Placement& placement : layouts_.units[static_cast<std::size_t>(unit)].placements())
      visit(views_[static_cast<std::size_t>(placement.tensor)]);
  }

  const ParameterManifest& manifest_;
  const UnitLayouts& layouts_;
  at::Device device_;
  std::vector<c10::Storage> values_;     ///< storages of the values, one per unit
  std::vector<c10::Storage> gradients_;  ///< storages of the gradients, one per unit
  /// whether gradients were written, one per tensor that is not tied to another
  std::deque<ops::GradientInitialized> written_;
  ExpertConsumer consumer_;
  /// Completions by unit; empty unless experts take turns.
  std::map<int, ops::ExpertCompletion> completions_;
  std::vector<ops::Parameter> views_;  ///< views of each manifest tensor; of a whole one in buffer_values_
  std::optional<StoredRoom> expert_room_, dense_room_;
  std::deque<StoredTensor> stored_;  ///< matrices of the tensors of stored units
  c10::Storage buffer_values_, whole_gradients_;
  std::map<std::string, at::Tensor, std::less<>> buffers_;  ///< persistent buffers by name
};

/// The views of one layer's tensors, by the names that its blocks give them (model/blocks/). `views` must
/// outlive this object.
class LayerViews {
 public:
  LayerViews(const ParameterViews& views, int layer, const ops::Dropout* dropout = nullptr,
             Adapters adapters = Adapters::kUsed)
      : views_(views), layer_(layer), dropout_(dropout), adapters_(adapters) {}
  [[nodiscard]] const ops::Parameter& operator[](std::string_view name) const;
  /// Persistent buffer of the layer, see ParameterViews::buffer().
  [[nodiscard]] at::Tensor buffer(std::string_view name) const;
  /// Weight of the layer, see ParameterViews::weight().
  [[nodiscard]] ops::Weight weight(std::string_view name) const;
  /// Completion of the layer's experts, see ParameterViews::expert_completion().
  [[nodiscard]] const ops::ExpertCompletion* expert_completion(std::string_view name) const;

 private:
  const ParameterViews& views_;
  int layer_;
  const ops::Dropout* dropout_;
  Adapters adapters_;
};

}  // namespace sluice
