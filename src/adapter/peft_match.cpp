#include "adapter/peft_match.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/key_map.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace sluice {
namespace {

bool is_fused(const TensorInfo& weight) { return weight.shape.size() == 3; }
bool has_gate(const TensorInfo& weight) { return weight.name.ends_with("gate_up_proj"); }

/// The module whose parameter a fused weight is.
std::string experts_of(const TensorInfo& weight) { return weight.name.substr(0, weight.name.rfind('.')); }

std::string peft_name_of(std::string path, LowRankPart part, int wrapped = 0) {
  return peft_name({std::move(path), wrapped, part});
}

}  // namespace

void PeftMatch::add(const SafetensorsEntry& entry) {
  if (std::string_view(entry.name).find(kWrappedTree) != std::string_view::npos) is_wrapped_ = true;
  if (const auto name = parse_peft_name(entry.name)) return add(entry, *name);
  const std::string_view name = entry.name;
  if (name.find("lora_embedding_") != std::string_view::npos)
    return unexpected(entry, "adapts an embedding, which is not supported");
  if (name.find("lora_magnitude_vector") != std::string_view::npos)
    return unexpected(entry, "belongs to DoRA, which is not supported");
  // PEFT copies the head beside its adapter, in case the vocabulary has grown.
  if (name == "base_model.model.lm_head.base_layer.weight") {
    const auto head = manifest_.find("lm_head.weight");
    if (head && manifest_[*head].shape == entry.shape) return;
  }
  unexpected(entry, "is no lora_A and no lora_B");
}

void PeftMatch::add(const SafetensorsEntry& entry, const PeftName& name) {
  if (const auto module = parse_expert_module(name.path)) return add_expert(entry, name, *module);
  if (manifest_.find(name.path + ".gate_up_proj")) return add_fused(entry, name);
  const std::string weight = name.path + std::string(kWeightEnd);
  const auto tensor = manifest_.find(weight);
  if (const auto ignored = ignored_key(weight); !tensor && ignored)
    return unexpected(entry, fmt::format("adapts what is not trained here: {}", ignored->reason));
  if (!tensor || name.wrapped > 0) return unexpected(entry, "adapts a weight that this model does not have");
  if (!is_adaptable(manifest_[*tensor])) return unexpected(entry, "adapts a weight that has no adapter here");
  put(found_[*tensor].whole, entry, name);
}

void PeftMatch::add_fused(const SafetensorsEntry& entry, const PeftName& name) {
  std::vector<int> parameters = fused_targets(name.path);
  // The wrapper of a module's last parameter is the outermost one.
  const int place = static_cast<int>(std::ssize(parameters)) - 1 - name.wrapped;
  if (place < 0)
    return unexpected(entry,
                      fmt::format("adapts one more parameter of {} than target_parameters names", name.path));
  put(found_[parameters[static_cast<std::size_t>(place)]].whole, entry, name);
}

std::vector<int> PeftMatch::fused_targets(const std::string& module) const {
  std::vector<int> parameters;
  for (const std::string_view end : {".gate_up_proj", ".down_proj"}) {
    const auto tensor = manifest_.find(module + std::string(end));
    if (tensor && targets_.means_parameter(manifest_[*tensor].name)) parameters.push_back(*tensor);
  }
  return parameters;
}

void PeftMatch::add_expert(const SafetensorsEntry& entry, const PeftName& name, const ExpertModule& module) {
  const bool is_down = module.projection == "down_proj";
  const auto tensor = manifest_.find(module.experts + (is_down ? ".down_proj" : ".gate_up_proj"));
  if (!tensor || module.expert >= manifest_[*tensor].shape[0] || name.wrapped > 0)
    return unexpected(entry, "adapts an expert that this model does not have");
  put(found_[*tensor].experts[{module.expert, module.projection == "up_proj" ? 1 : 0}], entry, name);
}

void PeftMatch::put(Pair& pair, const SafetensorsEntry& entry, const PeftName& name) {
  const SafetensorsEntry*& place = pair[name.part == LowRankPart::kA ? 0 : 1];
  if (place != nullptr) return unexpected(entry, fmt::format("holds what {} holds", printable(place->name)));
  if (!is_convertible(entry.dtype, DType::kFloat32))
    return unexpected(entry,
                      fmt::format("is {}, expected float32, bfloat16 or float16", name_of(entry.dtype)));
  place = &entry;
}

void PeftMatch::unexpected(const SafetensorsEntry& entry, std::string_view why) {
  faults_.push_back(fmt::format("{} {}", printable(entry.name, 200), why));
}

std::optional<AdaptedTensor> PeftMatch::match(const TensorInfo& weight, const Found& found,
                                              std::vector<PeftTensor>& tensors) {
  if (found.experts.empty()) return match_whole(weight, found.whole, tensors);
  for (const SafetensorsEntry* entry : found.whole)
    if (entry != nullptr) unexpected(*entry, "is there beside adapters of single experts");
  return match_experts(weight, found, tensors);
}

bool PeftMatch::has_shape(const SafetensorsEntry& entry, std::int64_t rows, std::int64_t columns,
                          std::int64_t rank) {
  const std::vector<std::int64_t> expected{rows, columns};
  if (entry.shape == expected) return true;
  faults_.push_back(fmt::format("{} is {}, expected {} of this model at rank {}", printable(entry.name, 200),
                                shape_text(entry.shape), shape_text(expected), rank));
  return false;
}

/// By the shapes where they tell; where both forms have the same, by the version that wrote them.
bool PeftMatch::is_by_position(const TensorInfo& weight, const Pair& pair, std::int64_t rank) const {
  if (!is_fused(weight)) return false;
  const std::int64_t ranks = weight.shape[0] * rank, out = weight.shape[1], in = weight.shape[2];
  const std::vector<std::int64_t> a{ranks, out}, b{in, ranks};
  return out == in ? config_.reads_experts_by_position : pair[0]->shape == a && pair[1]->shape == b;
}

std::optional<AdaptedTensor> PeftMatch::match_whole(const TensorInfo& weight, const Pair& pair,
                                                    std::vector<PeftTensor>& tensors) {
  const std::string name = is_fused(weight) ? weight.name : module_of(weight.name);
  for (int part = 0; part < 2; ++part) {
    if (pair[static_cast<std::size_t>(part)] != nullptr) continue;
    std::string other = pair[static_cast<std::size_t>(1 - part)]->name;
    other.replace(other.rfind(part == 0 ? "lora_B" : "lora_A"), 6, part == 0 ? "lora_A" : "lora_B");
    missing_.push_back(std::move(other));
    return std::nullopt;
  }
  // A router's name among the parameters is its weight's.
  const std::string named = targets_.means_parameter(weight.name) ? weight.name : name;
  const std::int64_t rank = targets_.rank_of(named);
  const std::int64_t experts = is_fused(weight) ? weight.shape[0] : 1;
  const std::int64_t out = weight.shape[weight.shape.size() - 2], in = weight.shape.back();
  const bool by_position = is_by_position(weight, pair, rank);
  const bool fits_a = has_shape(*pair[0], experts * rank, by_position ? out : in, rank);
  const bool fits_b = has_shape(*pair[1], by_position ? in : out, experts * rank, rank);
  if (!fits_a || !fits_b) return std::nullopt;
  const AdapterNames names = adapter_names(weight.name);
  if (by_position) {
    tensors.push_back({*pair[0], names.b, {0, {experts, rank, out}, {out * rank, 1, rank}}});
    tensors.push_back({*pair[1], names.a, {0, {in, rank, experts}, {1, in, rank * in}}});
  } else {
    tensors.push_back({*pair[0], names.a, ElementMap::straight(0, experts * rank * in)});
    tensors.push_back({*pair[1], names.b,
                       experts == 1 ? ElementMap::straight(0, out * rank)
                                    : ElementMap{0, {out, rank, experts}, {rank, 1, out * rank}}});
  }
  return AdaptedTensor{weight.name, rank, targets_.scale_of(named)};
}

/// Gate and up, each with an A of its own, have one of both ranks together: B is block-diagonal.
std::optional<AdaptedTensor> PeftMatch::match_experts(const TensorInfo& weight, const Found& found,
                                                      std::vector<PeftTensor>& tensors) {
  const std::int64_t experts = weight.shape[0], in = weight.shape[2];
  const int parts = has_gate(weight) ? 2 : 1;
  const std::int64_t out = weight.shape[1] / parts;
  const AdapterNames names = adapter_names(weight.name);
  std::optional<AdaptedTensor> adapted;
  bool fits = true;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    for (int part = 0; part < parts; ++part) {
      const std::string_view projection = parts == 1 ? "down_proj" : part == 0 ? "gate_proj" : "up_proj";
      const std::string path = fmt::format("{}.{}.{}", experts_of(weight), expert, projection);
      const auto at = found.experts.find({expert, part});
      const Pair pair = at == found.experts.end() ? Pair{} : at->second;
      if (pair[0] == nullptr) missing_.push_back(peft_name_of(path, LowRankPart::kA));
      if (pair[1] == nullptr) missing_.push_back(peft_name_of(path, LowRankPart::kB));
      const std::int64_t rank = targets_.rank_of(path);
      fits = fits && pair[0] != nullptr && pair[1] != nullptr && has_shape(*pair[0], rank, in, rank) &&
             has_shape(*pair[1], out, rank, rank);
      if (!fits) continue;
      const AdaptedTensor own{weight.name, parts * rank, targets_.scale_of(path)};
      if (adapted && *adapted != own) {
        unexpected(*pair[0], "has another rank or alpha than another expert of its layer");
        fits = false;
        continue;
      }
      adapted = own;
      const std::int64_t ranks = parts * rank;
      tensors.push_back(
          {*pair[0], names.a, ElementMap::straight((expert * ranks + part * rank) * in, rank * in)});
      tensors.push_back(
          {*pair[1],
           names.b,
           {(expert * parts + part) * out * ranks + part * rank, {1, out, rank}, {0, ranks, 1}}});
    }
  }
  return fits ? adapted : std::nullopt;
}

/// Whether the configuration means a weight. Experts as modules are meant only where the file has some: in models of
/// today they are parameters, and the same name stands for a shared expert's projection.
bool PeftMatch::is_target(const TensorInfo& weight) const {
  if (targets_.means_parameter(weight.name)) return true;
  if (!is_fused(weight)) return targets_.means_module(module_of(weight.name));
  const auto has_experts = [](const auto& found) { return !found.second.experts.empty(); };
  if (std::ranges::none_of(found_, has_experts)) return false;
  return targets_.means_module(experts_of(weight) + (has_gate(weight) ? ".0.gate_proj" : ".0.down_proj"));
}

void PeftMatch::require_targets(const std::map<int, Found>& found) {
  for (int i = 0; i < static_cast<int>(manifest_.tensors().size()); ++i) {
    const TensorInfo& weight = manifest_[i];
    if (!is_adaptable(weight)) continue;
    const bool is_there = found.contains(i);
    const bool is_meant = is_target(weight);
    if (is_meant && !is_there) {
      const std::string path = is_fused(weight) ? experts_of(weight) : module_of(weight.name);
      const bool is_inner = is_fused(weight) && has_gate(weight) && fused_targets(path).size() == 2;
      missing_.push_back(peft_name_of(path, LowRankPart::kA, is_inner ? 1 : 0));
    }
    if (is_there && !is_meant)
      faults_.push_back(fmt::format("{} is adapted, and neither target_modules nor target_parameters mean it",
                                    weight.name));
  }
}

void PeftMatch::finish(const std::string& file, PeftAdapter& out) {
  require_targets(found_);
  for (const auto& [tensor, found] : found_)
    if (auto adapted = match(manifest_[tensor], found, out.tensors))
      out.adapters.tensors.push_back(std::move(*adapted));
  if (is_wrapped_) out.style.tree = kWrappedTree;
  std::ranges::sort(out.tensors, {}, [](const PeftTensor& tensor) { return tensor.entry.begin; });
  std::string text;
  if (!missing_.empty())
    text += fmt::format("\n  {} tensors are missing:{}", missing_.size(), lines_of_some(missing_, 20));
  if (!faults_.empty())
    text += fmt::format("\n  {} do not fit:{}", faults_.size(), lines_of_some(faults_, 20));
  if (!text.empty())
    fail(
        ExitCode::kBadData,
        "{} is no adapter of this model as {} describes it{}\n  Likely cause: it was made for another model, or is not "
        "complete",
        file, config_.source, text);
}

}  // namespace sluice
