#include "decoder/parameter_views.hpp"

#include "base/error.hpp"
#include "manifest/adapter.hpp"
#include "model/blocks/block.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

namespace sluice {
namespace {

c10::Storage unbound_storage(std::int64_t bytes, at::Device device) {
  return {c10::Storage::use_byte_size_t(), static_cast<std::size_t>(bytes), at::DataPtr(nullptr, device),
          nullptr, false};
}

void point_at(c10::Storage& storage, void* address) {
  storage.set_data_ptr_noswap(at::DataPtr(address, storage.device()));
}

/// Shape of what this rank computes with of a tensor: fused experts have as many experts as it holds, tensors of a unit
/// by rows its rows, other tensors are whole.
std::vector<std::int64_t> shape_of(const TensorInfo& tensor, const ShardPlan& plan, int unit, int rank) {
  std::vector<std::int64_t> shape = tensor.shape;
  if (plan.has_experts(unit))
    shape[0] = plan.gathered_range(unit, rank).count() /
               plan.layouts().units[static_cast<std::size_t>(unit)].expert_begin(1);
  if (plan.is_by_rows(unit)) shape[0] = plan.owned_rows(unit, rank).count();
  return shape;
}

at::Tensor view_of(const c10::Storage& storage, at::ScalarType type, const Placement& placement,
                   const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  at::Tensor view = at::empty({0}, at::TensorOptions(storage.device()).dtype(type));
  view.set_(storage, shape.front() == 0 ? 0 : placement.offset, shape, strides);
  return view;
}

}  // namespace

ParameterViews::ParameterViews(const ParameterManifest& manifest, const ShardPlan& plan, int rank,
                               DType dtype, MemoryKind memory, const StoredLayout* stored,
                               ExpertGradients experts)
    : manifest_(manifest),
      layouts_(plan.layouts()),
      device_(ops::device_of(memory)),
      views_(manifest.tensors().size()),
      buffer_values_(unbound_storage(layouts_.buffer_elements() * size_of(DType::kFloat32), device_)),
      whole_gradients_(
          unbound_storage(layouts_.trained_buffers.count() * size_of(DType::kFloat32), device_)) {
  if (stored != nullptr) {
    expert_room_.emplace(*stored, largest_stored_expert(plan, rank), dtype, memory,
                         "the numbers of a dequantised expert");
    dense_room_.emplace(*stored, largest_stored_dense(plan), dtype, memory,
                        "the numbers of a dequantised unit");
  }
  for (const BufferPlace& buffer : layouts_.buffers) {
    const TensorInfo& tensor = manifest[buffer.tensor];
    const auto view = [&](const c10::Storage& storage, std::int64_t offset) {
      const Placement placement{.tensor = buffer.tensor, .offset = offset};
      return view_of(storage, at::kFloat, placement, tensor.shape, placement.strides(tensor.shape));
    };
    ops::Parameter& parameter = views_[static_cast<std::size_t>(buffer.tensor)];
    buffers_[tensor.name] = parameter.value = view(buffer_values_, buffer.offset);
    if (buffer.offset >= layouts_.trained_buffers.begin)
      parameter.grad = view(whole_gradients_, buffer.offset - layouts_.trained_buffers.begin);
  }
  for (int unit = 0; unit < static_cast<int>(layouts_.units.size()); ++unit) {
    const FlatLayout& layout = layouts_.units[static_cast<std::size_t>(unit)];
    const std::int64_t held = plan.gathered_range(unit, rank).count();
    values_.push_back(unbound_storage(held * size_of(dtype), device_));
    gradients_.push_back(unbound_storage(held * size_of(DType::kFloat32), device_));
    const bool in_turn = experts == ExpertGradients::kInTurn && layout.kind() == UnitKind::kExperts;
    if (in_turn && layout.is_trained())
      completions_[unit] = [this, unit](std::int64_t expert) { consumer_(unit, expert); };
    for (const Placement& placement : layout.placements()) {
      const TensorInfo& tensor = manifest[placement.tensor];
      const std::vector<std::int64_t> shape = shape_of(tensor, plan, unit, rank);
      const std::vector<std::int64_t> strides = placement.strides(tensor.shape);
      std::vector<std::int64_t> gradient_strides = strides;
      if (in_turn) gradient_strides.front() = 0;
      views_[static_cast<std::size_t>(placement.tensor)] = {
          view_of(values_.back(), ops::scalar_type(dtype), placement, shape, strides),
          layout.is_trained() ? view_of(gradients_.back(), at::kFloat, placement, shape, gradient_strides)
                              : at::Tensor(),
          &written_.emplace_back(layout.kind() == UnitKind::kExperts ? shape.front() : 1),
          layout.is_stored()
              ? &stored_.emplace_back(layout.kind() == UnitKind::kExperts ? *expert_room_ : *dense_room_,
                                      unit, static_cast<int>(&placement - layout.placements().data()),
                                      shape[shape.size() - 2], shape.back())
              : nullptr};
    }
  }
}

const TensorHome& ParameterViews::home_of(std::string_view name) const {
  const auto tensor = manifest_.find(name);
  SLUICE_ASSERT(tensor, "no tensor {} in the manifest", name);
  const TensorHome& home = layouts_.homes[static_cast<std::size_t>(*tensor)];
  SLUICE_ASSERT(home.unit >= 0, "tensor {} has no storage", name);
  return home;
}

const ops::ExpertCompletion* ParameterViews::expert_completion(std::string_view name) const {
  const auto tensor = manifest_.find(name);
  SLUICE_ASSERT(tensor, "no tensor {} in the manifest", name);
  const std::string a = adapter_names(manifest_, *tensor).a;
  const auto found = completions_.find(home_of(manifest_.find(a) ? a : name).unit);
  return found == completions_.end() ? nullptr : &found->second;
}

ops::Weight ParameterViews::weight(std::string_view name, const ops::Dropout* dropout,
                                   Adapters adapters) const {
  const auto tensor = manifest_.find(name);
  SLUICE_ASSERT(tensor, "no tensor {} in the manifest", name);
  const AdapterNames names = adapter_names(manifest_, *tensor);
  const auto a = manifest_.find(names.a);
  if (!a || adapters == Adapters::kLeftOut) return (*this)[name];
  return {(*this)[name], ops::Lora{.a = (*this)[names.a],
                                   .b = (*this)[names.b],
                                   .scale = manifest_[*a].scale,
                                   .dropout = dropout,
                                   .stream = *a}};
}

const ops::Parameter& ParameterViews::operator[](std::string_view name) const {
  if (buffers_.contains(name)) return views_[static_cast<std::size_t>(manifest_.find(name).value())];
  const TensorHome& home = home_of(name);
  const FlatLayout& unit = layouts_.units[static_cast<std::size_t>(home.unit)];
  return views_[static_cast<std::size_t>(unit.placements()[static_cast<std::size_t>(home.placement)].tensor)];
}

at::Tensor ParameterViews::buffer(std::string_view name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? at::Tensor() : found->second;
}

void ParameterViews::bind_buffers(float* buffers) { point_at(buffer_values_, buffers); }

void ParameterViews::bind_whole_gradients(float* gradients) { point_at(whole_gradients_, gradients); }

void ParameterViews::bind(int unit, std::byte* values) {
  const FlatLayout& layout = layouts_.units[static_cast<std::size_t>(unit)];
  if (!layout.is_stored()) return point_at(values_[static_cast<std::size_t>(unit)], values);
  for (StoredTensor& tensor : stored_)
    if (tensor.unit() == unit) tensor.bind(values);
}

void ParameterViews::bind_gradients(int unit, float* gradients) {
  point_at(gradients_[static_cast<std::size_t>(unit)], gradients);
}

void ParameterViews::unbind(int unit) { bind(unit, nullptr); }

void ParameterViews::unbind_gradients(int unit) { bind_gradients(unit, nullptr); }

void ParameterViews::use_products(ops::Products products) {
  for (StoredTensor& tensor : stored_) tensor.use_products(products);
}

void ParameterViews::set_written(int unit, ops::Written written) {
  for_each_view(unit, [&](const ops::Parameter& view) { view.written->set_all(written); });
}

void ParameterViews::clear_unwritten(int unit) {
  for_each_view(unit, [](const ops::Parameter& view) { ops::clear_unwritten_gradient(view); });
}

const ops::Parameter& LayerViews::operator[](std::string_view name) const {
  return views_[layer_tensor_name(layer_, name)];
}

at::Tensor LayerViews::buffer(std::string_view name) const {
  return views_.buffer(layer_tensor_name(layer_, name));
}

ops::Weight LayerViews::weight(std::string_view name) const {
  return views_.weight(layer_tensor_name(layer_, name), dropout_, adapters_);
}

const ops::ExpertCompletion* LayerViews::expert_completion(std::string_view name) const {
  return views_.expert_completion(layer_tensor_name(layer_, name));
}

}  // namespace sluice
