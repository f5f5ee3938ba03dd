#include "manifest/adapter.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kWeight = ".weight";

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

}  // namespace

double scale_divisor(std::int64_t rank, bool rslora) {
  const auto divisor = static_cast<double>(rank);
  return rslora ? std::sqrt(divisor) : divisor;
}

const AdaptedTensor* AdapterDescription::find(std::string_view base) const {
  const auto found = std::ranges::find(tensors, base, &AdaptedTensor::base);
  return found == tensors.end() ? nullptr : &*found;
}

AdapterNames adapter_names(std::string_view base) {
  const bool is_module = base.ends_with(kWeight);
  const std::string stem(base.substr(0, base.size() - (is_module ? kWeight.size() : 0)));
  const std::string_view end = is_module ? kWeight : "";
  return {std::string(stem).append(".lora_A").append(end), std::string(stem).append(".lora_B").append(end)};
}

bool is_adaptable(const TensorInfo& tensor) {
  if (tensor.kind != TensorKind::kParameter || !tensor.adapts.empty()) return false;
  if (tensor.role == Role::kExpert) return tensor.shape.size() == 3;
  return tensor.shape.size() == 2 && tensor.role != Role::kEmbedding && tensor.role != Role::kNorm;
}

void add_adapters(ParameterManifest& manifest, const AdapterDescription& adapters) {
  for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor)
    manifest.freeze(tensor);
  for (const AdaptedTensor& adapted : adapters.tensors) {
    const auto index = manifest.find(adapted.base);
    SLUICE_ASSERT(index && is_adaptable(manifest[*index]), "{} cannot be adapted", adapted.base);
    SLUICE_ASSERT(adapted.rank >= 1, "an adapter of {} of rank {}", adapted.base, adapted.rank);
    const AdapterNames names = adapter_names(adapted.base);
    TensorInfo a = low_rank_part(manifest[*index], adapted, names.a, InitialValues::kUniformByColumns);
    TensorInfo b = low_rank_part(manifest[*index], adapted, names.b, InitialValues::kZeros);
    a.shape[a.shape.size() - 2] = adapted.rank;
    b.shape.back() = adapted.rank;
    manifest.add(std::move(a));
    manifest.add(std::move(b));
  }
}

}  // namespace sluice
