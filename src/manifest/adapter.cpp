#include "manifest/adapter.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kWeight = ".weight";

bool is_adaptable(const TensorInfo& tensor) {
  if (tensor.kind != TensorKind::kParameter || !tensor.adapts.empty()) return false;
  if (tensor.role == Role::kExpert) return tensor.shape.size() == 3;
  return tensor.shape.size() == 2 && tensor.role != Role::kEmbedding && tensor.role != Role::kNorm;
}

/// The adaptable weight in which the tensor of that index is published.
AdaptableWeight weight_with(const ParameterManifest& manifest, int tensor) {
  AdaptableWeight weight{manifest[tensor], {{tensor, 0, manifest[tensor].element_count()}}};
  if (const JoinedTensor* joined = manifest.joined_in_tree(tensor)) {
    weight.info.name = joined->name;
    weight.info.shape = joined->shape;
    weight.ranges = joined->ranges;
  }
  return weight;
}

std::string low_rank_name(std::string_view base, std::string_view part) {
  const bool is_module = base.ends_with(kWeight);
  const std::string stem(base.substr(0, base.size() - (is_module ? kWeight.size() : 0)));
  return std::string(stem).append(part).append(is_module ? kWeight : "");
}

TensorInfo low_rank_part(const TensorInfo& base, const AdaptedTensor& adapted, std::string name,
                         InitialValues initial) {
  TensorInfo part = base;
  part.name = std::move(name);
  part.kind = TensorKind::kParameter;
  part.tied_to.clear();
  part.initial = initial;
  part.frozen = false;
  part.adapts = base.name;
  part.scale = adapted.scale;
  return part;
}

void add_adapter(ParameterManifest& manifest, const AdaptableWeight& weight, const AdaptedTensor& adapted) {
  TensorInfo a = low_rank_part(weight.info, adapted, adapter_names(manifest, weight.ranges.front().tensor).a,
                               InitialValues::kUniformByColumns);
  a.shape[a.shape.size() - 2] = adapted.rank;
  manifest.add(std::move(a));
  std::set<int> parts;
  for (const TensorRange& range : weight.ranges) parts.insert(range.tensor);
  for (const int part : parts) {
    TensorInfo b =
        low_rank_part(manifest[part], adapted, adapter_names(manifest, part).b, InitialValues::kZeros);
    b.shape.back() = adapted.rank;
    manifest.add(std::move(b));
  }
}

}  // namespace

std::vector<AdaptableWeight> adaptable_weights(const ParameterManifest& manifest) {
  std::vector<AdaptableWeight> weights;
  std::set<std::string_view> joined;  // joined tensors that are listed already
  for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor) {
    if (!is_adaptable(manifest[tensor])) continue;
    const JoinedTensor* with = manifest.joined_in_tree(tensor);
    if (with == nullptr || joined.insert(with->name).second) weights.push_back(weight_with(manifest, tensor));
  }
  return weights;
}

std::optional<AdaptableWeight> find_adaptable(const ParameterManifest& manifest, std::string_view name) {
  const JoinedTensor* joined = manifest.find_joined(name);
  const std::optional<int> tensor = joined != nullptr ? joined->ranges.front().tensor : manifest.find(name);
  if (!tensor || !is_adaptable(manifest[*tensor])) return std::nullopt;
  AdaptableWeight weight = weight_with(manifest, *tensor);
  return weight.info.name == name ? std::optional(std::move(weight)) : std::nullopt;
}

double scale_divisor(std::int64_t rank, ScaleRule rule) {
  const auto divisor = static_cast<double>(rank);
  return rule == ScaleRule::kByRootOfRank ? std::sqrt(divisor) : divisor;
}

const AdaptedTensor* AdapterDescription::find(std::string_view base) const {
  const auto found = std::ranges::find(tensors, base, &AdaptedTensor::base);
  return found == tensors.end() ? nullptr : &*found;
}

AdapterNames adapter_names(const ParameterManifest& manifest, int tensor) {
  const JoinedTensor* joined = manifest.joined_in_tree(tensor);
  const std::string_view own = manifest[tensor].name;
  return {low_rank_name(joined == nullptr ? own : joined->name, ".lora_A"), low_rank_name(own, ".lora_B")};
}

void add_adapters(ParameterManifest& manifest, const AdapterDescription& adapters) {
  for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor)
    manifest.freeze(tensor);
  for (const AdaptedTensor& adapted : adapters.tensors) {
    const auto weight = find_adaptable(manifest, adapted.base);
    SLUICE_ASSERT(weight.has_value(), "tensor {} cannot have a LoRA adapter", adapted.base);
    SLUICE_ASSERT(adapted.rank >= 1, "an adapter of {} cannot have rank {}", adapted.base, adapted.rank);
    add_adapter(manifest, *weight, adapted);
  }
}

}  // namespace sluice
