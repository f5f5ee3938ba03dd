#include "adapter/peft_match.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/key_map.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace sluice {
namespace {

bool has_gate(const AdaptableWeight& weight) { return weight.info.name.ends_with("gate_up_proj"); }

/// Name of the projection of a fused weight, where it is one: "up_proj".
std::string projection_of(const AdaptableWeight& weight) {
  return weight.info.name.substr(weight.info.name.rfind('.') + 1);
}

/// Module of which a fused weight is a parameter.
std::string experts_of(const AdaptableWeight& weight) {
  return weight.info.name.substr(0, weight.info.name.rfind('.'));
}

std::string peft_name_of(std::string path, LowRankPart part, int wrapped = 0) {
  return peft_name({std::move(path), wrapped, part});
}

}  // namespace

PeftMatch::PeftMatch(const PeftConfig& config, const PeftTargets& targets, const ParameterManifest& manifest)
    : config_(config), targets_(targets), manifest_(manifest), weights_(adaptable_weights(manifest)) {
  for (std::size_t i = 0; i < weights_.size(); ++i)
    by_name_.emplace(weights_[i].info.name, static_cast<int>(i));
}

std::optional<int> PeftMatch::find(const std::string& weight) const {
  const auto found = by_name_.find(weight);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int> PeftMatch::find_inner(const std::string& experts) const {
  const auto joined = find(experts + ".gate_up_proj");
  return joined ? joined : find(experts + ".up_proj");
}

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
  unexpected(entry, "is neither a lora_A nor a lora_B");
}

void PeftMatch::add(const SafetensorsEntry& entry, const PeftName& name) {
  if (!adapter_) adapter_ = name.adapter;
  if (name.adapter != *adapter_)
    return unexpected(entry,
                      fmt::format("is of another adapter than the first tensor, which {}; expected a file "
                                  "of one adapter",
                                  adapter_->empty() ? "names none" : "names " + printable(*adapter_)));
  if (const auto module = parse_expert_module(name.path)) return add_expert(entry, name, *module);
  if (find_inner(name.path)) return add_fused(entry, name);
  const std::string weight = name.path + std::string(kWeightEnd);
  if (const auto index = find(weight); index && name.wrapped == 0)
    return put(found_[*index].whole, entry, name);
  unexpected(entry, why_not_adapted(weight));
}

std::string PeftMatch::why_not_adapted(const std::string& weight) const {
  const auto tensor = manifest_.find(weight);
  if (const auto ignored = ignored_key(weight); !tensor && ignored)
    return fmt::format("adapts what is not trained here: {}", ignored->reason);
  if (!tensor || find(weight)) return "adapts a weight that this model does not have";
  const JoinedTensor* joined = manifest_.joined_in_tree(*tensor);
  if (joined == nullptr || !find(joined->name)) return "adapts a weight that has no adapter here";
  return fmt::format("adapts what is published as {}, expected an adapter of that", joined->name);
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
  std::vector<int> all, named;
  for (const std::optional<int> index : {find_inner(module), find(module + ".down_proj")}) {
    if (!index) continue;
    all.push_back(*index);
    if (targets_.means_parameter(weights_[static_cast<std::size_t>(*index)].info.name))
      named.push_back(*index);
  }
  // To PEFT the projections of experts are linear layers still.
  return named.empty() && targets_.means_all_linear() ? all : named;
}

void PeftMatch::add_expert(const SafetensorsEntry& entry, const PeftName& name, const ExpertModule& module) {
  const bool is_down = module.projection == "down_proj";
  const auto index = is_down ? find(module.experts + ".down_proj") : find_inner(module.experts);
  const AdaptableWeight* const weight = index ? &weights_[static_cast<std::size_t>(*index)] : nullptr;
  const bool is_there =
      weight != nullptr && (has_gate(*weight) || projection_of(*weight) == module.projection);
  if (!is_there || module.expert >= weight->experts() || name.wrapped > 0)
    return unexpected(entry, "adapts an expert that this model does not have");
  const int part = has_gate(*weight) && module.projection == "up_proj" ? 1 : 0;
  put(found_[*index].experts[{module.expert, part}], entry, name);
}

void PeftMatch::put(Pair& pair, const SafetensorsEntry& entry, const PeftName& name) {
  const SafetensorsEntry*& place = pair[name.part == LowRankPart::kA ? 0 : 1];
  if (place != nullptr) return unexpected(entry, fmt::format("holds what {} holds", printable(place->name)));
  if (!is_convertible(entry.dtype, DType::kFloat32))
    return unexpected(
        entry, fmt::format("is {}, expected bfloat16, float16, float32 or float64", name_of(entry.dtype)));
  place = &entry;
}

void PeftMatch::unexpected(const SafetensorsEntry& entry, std::string_view why) {
  faults_.push_back(fmt::format("{} {}", printable(entry.name, 200), why));
}

std::optional<AdaptedTensor> PeftMatch::match(const AdaptableWeight& weight, const Found& found,
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

/// Whether experts are read by position: the shapes tell, or if they do not, the version that wrote the file.
/// Experts that are published [expert, in, out] are what those versions take them for.
bool PeftMatch::is_by_position(const AdaptableWeight& weight, const Pair& pair, std::int64_t rank) const {
  if (!weight.is_fused() || manifest_.has_transposed_experts()) return false;
  const std::int64_t ranks = weight.experts() * rank, out = weight.out(), in = weight.in();
  const std::vector<std::int64_t> a{ranks, out}, b{in, ranks};
  return out == in ? config_.reads_experts_by_position : pair[0]->shape == a && pair[1]->shape == b;
}

/// Number of linear layers whose adapters one of this weight is, by the rows of its A. PEFT from 0.21 on makes
/// of "all-linear" an adapter of gate and up together, with the ranks of both.
int PeftMatch::projections_of(const AdaptableWeight& weight, const std::string& named,
                              const SafetensorsEntry& a) const {
  const bool may_be_two = targets_.means_all_linear() && weight.is_fused() && has_gate(weight);
  return may_be_two && a.shape.front() == weight.experts() * targets_.rank_of(named, 2) ? 2 : 1;
}

std::optional<AdaptedTensor> PeftMatch::match_whole(const AdaptableWeight& weight, const Pair& pair,
                                                    std::vector<PeftTensor>& tensors) {
  const std::string& base = weight.info.name;
  const std::string name = weight.is_fused() ? base : module_of(base);
  for (int part = 0; part < 2; ++part) {
    if (pair[static_cast<std::size_t>(part)] != nullptr) continue;
    std::string other = pair[static_cast<std::size_t>(1 - part)]->name;
    other.replace(other.rfind(part == 0 ? "lora_B" : "lora_A"), 6, part == 0 ? "lora_A" : "lora_B");
    missing_.push_back(std::move(other));
    return std::nullopt;
  }
  // Among the parameters, a router is named like its weight.
  const std::string named = targets_.means_parameter(base) ? base : name;
  const std::int64_t experts = weight.experts(), out = weight.out(), in = weight.in();
  const int projections = projections_of(weight, named, *pair[0]);
  const std::int64_t rank = targets_.rank_of(named, projections);
  const bool by_position = is_by_position(weight, pair, rank);
  const bool fits_a = has_shape(*pair[0], experts * rank, by_position ? out : in, rank);
  const bool fits_b = has_shape(*pair[1], by_position ? in : out, experts * rank, rank);
  if (!fits_a || !fits_b) return std::nullopt;
  if (by_position) {
    const AdapterNames names = adapter_names(manifest_, weight.ranges.front().tensor);
    tensors.push_back(
        {*pair[0], {{names.b, 0, {.count = experts * rank * out, .rows = rank, .columns = out}}}});
    tensors.push_back(
        {*pair[1],
         {{names.a, 0, {.count = experts * rank * in, .rows = in, .columns = experts, .planes = rank}}}});
  } else {
    tensors.push_back({*pair[0], parts_of_a(manifest_, weight, rank)});
    tensors.push_back({*pair[1], parts_of_b(manifest_, weight, rank)});
  }
  return AdaptedTensor{base, rank, targets_.scale_of(named, projections)};
}

/// Matches gate and up, each with its own A; their adapter has both ranks together, and B is block-diagonal.
std::optional<AdaptedTensor> PeftMatch::match_experts(const AdaptableWeight& weight, const Found& found,
                                                      std::vector<PeftTensor>& tensors) {
  const std::int64_t experts = weight.experts(), in = weight.in();
  const int parts = has_gate(weight) ? 2 : 1;
  const std::int64_t out = weight.out() / parts;
  const AdapterNames names = adapter_names(manifest_, weight.ranges.front().tensor);
  std::optional<AdaptedTensor> adapted;
  bool fits = true;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    for (int part = 0; part < parts; ++part) {
      const std::string projection = parts == 1 ? projection_of(weight) : part == 0 ? "gate_proj" : "up_proj";
      const std::string path = fmt::format("{}.{}.{}", experts_of(weight), expert, projection);
      const auto at = found.experts.find({expert, part});
      const Pair pair = at == found.experts.end() ? Pair{} : at->second;
      if (pair[0] == nullptr) missing_.push_back(peft_name_of(path, LowRankPart::kA));
      if (pair[1] == nullptr) missing_.push_back(peft_name_of(path, LowRankPart::kB));
      const std::int64_t rank = targets_.rank_of(path);
      fits = fits && pair[0] != nullptr && pair[1] != nullptr && has_shape(*pair[0], rank, in, rank) &&
             has_shape(*pair[1], out, rank, rank);
      if (!fits) continue;
      const AdaptedTensor own{weight.info.name, parts * rank, targets_.scale_of(path)};
      if (adapted && *adapted != own) {
        unexpected(*pair[0], "has another rank or alpha than another expert of its layer");
        fits = false;
        continue;
      }
      adapted = own;
      const std::int64_t ranks = parts * rank;
      tensors.push_back(
          {*pair[0], {{names.a, 0, {.begin = (expert * ranks + part * rank) * in, .count = rank * in}}}});
      tensors.push_back({*pair[1],
                         {{names.b,
                           0,
                           {.begin = (expert * parts + part) * out * ranks + part * rank,
                            .count = out * rank,
                            .columns = rank,
                            .stride = ranks}}}});
    }
  }
  return fits ? adapted : std::nullopt;
}

/// Which layers are linear depends on the version of transformers that the file was made with: all of
/// attention in each of them but what PEFT refuses, while routers, routed experts and, beside these, the MLPs that
/// have the names of their projections are in some files and not in others. So of these a file has those of a name
/// in every layer, or none.
bool PeftMatch::is_linear_target(const AdaptableWeight& weight) const {
  const Role role = weight.info.role;
  if (role == Role::kHead || !targets_.means_module(module_of(weight.info.name))) return false;
  const bool is_refused = manifest_.is_refused_by_peft(weight.info.name);
  if (!is_refused && (role == Role::kAttention || role == Role::kLinearAttention)) return true;
  const auto kind = [](const AdaptableWeight& one) {
    return name_within_layer(one.info.name, one.info.layer);
  };
  return std::ranges::any_of(found_, [&](const auto& found) {
    return kind(weights_[static_cast<std::size_t>(found.first)]) == kind(weight);
  });
}

/// Whether the configuration selects a weight. Experts as modules are only selected if the file has some: in
/// today's models they are parameters, and the same name is that of a shared expert's projection.
bool PeftMatch::is_target(const AdaptableWeight& weight) const {
  if (targets_.means_parameter(weight.info.name)) return true;
  if (targets_.means_all_linear()) return is_linear_target(weight);
  if (!weight.is_fused()) return targets_.means_module(module_of(weight.info.name));
  const auto has_experts = [](const auto& found) { return !found.second.experts.empty(); };
  if (std::ranges::none_of(found_, has_experts)) return false;
  return targets_.means_module(experts_of(weight) + ".0." +
                               (has_gate(weight) ? "gate_proj" : projection_of(weight)));
}

void PeftMatch::require_targets(const std::map<int, Found>& found) {
  for (int i = 0; i < static_cast<int>(weights_.size()); ++i) {
    const AdaptableWeight& weight = weights_[static_cast<std::size_t>(i)];
    const bool is_there = found.contains(i);
    const bool is_meant = is_target(weight);
    if (is_meant && !is_there) {
      const std::string path = weight.is_fused() ? experts_of(weight) : module_of(weight.info.name);
      const bool is_inner =
          weight.is_fused() && projection_of(weight) != "down_proj" && fused_targets(path).size() == 2;
      missing_.push_back(peft_name_of(path, LowRankPart::kA, is_inner ? 1 : 0));
    }
    if (is_there && !is_meant)
      faults_.push_back(fmt::format("{} is adapted, and neither target_modules nor target_parameters mean it",
                                    weight.info.name));
  }
}

void PeftMatch::finish(const std::string& file, PeftAdapter& out) {
  require_targets(found_);
  for (const auto& [weight, found] : found_)
    if (auto adapted = match(weights_[static_cast<std::size_t>(weight)], found, out.tensors))
      out.adapters.tensors.push_back(std::move(*adapted));
  if (is_wrapped_) out.style.tree = kWrappedTree;
  std::ranges::sort(out.tensors, {}, [](const PeftTensor& tensor) { return tensor.entry.begin; });
  std::string text;
  if (!missing_.empty())
    text += fmt::format("\n  {} {} missing:{}", counted(std::ssize(missing_), "tensor"),
                        is_or_are(std::ssize(missing_)), lines_of_some(missing_, 20));
  if (!faults_.empty())
    text += fmt::format("\n  {} {} not fit:{}", faults_.size(), faults_.size() == 1 ? "does" : "do",
                        lines_of_some(faults_, 20));
  if (!text.empty())
    fail({ExitCode::kBadData, "adapter.mismatch"},
         "{} is not an adapter of this model as {} describes it{}\n  Likely cause: it was made for another "
         "model, or is not complete",
         file, config_.source, text);
}

}  // namespace sluice
