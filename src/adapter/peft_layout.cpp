#include "adapter/peft_layout.hpp"

#include "adapter/peft_names.hpp"
#include "base/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace sluice {
namespace {

using json = nlohmann::ordered_json;

/// Version of PEFT from which on fused experts are [expert, out, in].
constexpr std::string_view kVersion = "0.20.0";

AdaptableWeight weight_of(const ParameterManifest& manifest, const AdaptedTensor& adapted) {
  const auto weight = find_adaptable(manifest, adapted.base);
  SLUICE_ASSERT(weight.has_value(), "{} cannot be adapted", adapted.base);
  return *weight;
}

/// Names against which PEFT's patterns are matched, and which its lists of targets have. Routed experts and
/// routers are parameters to PEFT, not modules. So are projections of dense layers and of shared experts
/// beside routed ones, and of attention's gate, here: in target_modules PEFT takes their names for those of experts
/// in many models.
class PeftNames {
 public:
  PeftNames(const ParameterManifest& manifest, std::string tree)
      : manifest_(manifest),
        tree_(std::move(tree)),
        has_experts_(std::ranges::any_of(
            manifest.tensors(), [](const TensorInfo& tensor) { return tensor.role == Role::kExpert; })) {}

  [[nodiscard]] bool is_parameter(const TensorInfo& weight) const {
    return weight.role == Role::kExpert || weight.role == Role::kRouter ||
           (weight.role == Role::kDenseMlp && has_experts_) ||
           (weight.role == Role::kSharedExpert && weight.name.ends_with("_proj.weight")) ||
           (weight.role == Role::kAttention && weight.name.ends_with("gate_proj.weight"));
  }
  [[nodiscard]] std::string of(const TensorInfo& weight) const {
    const std::string name = manifest_.tree_name(weight.name);
    return in_tree(is_parameter(weight) ? name : module_of(name), tree_);
  }
  [[nodiscard]] std::string within_layer(const TensorInfo& weight) const {
    return name_within_layer(of(weight), weight.layer);
  }

 private:
  const ParameterManifest& manifest_;
  std::string tree_;
  bool has_experts_;
};

std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') out += '\\';
    out += c;
  }
  return out;
}

/// A number as JSON; whole numbers as integers, as PEFT writes them.
json number(double value) {
  const double whole = std::round(value);
  if (std::abs(value - whole) <= 1e-9 * std::max(1.0, std::abs(value)))
    return static_cast<std::int64_t>(whole);
  return value;
}

/// The value that most of the weights have.
template <class T>
T most_frequent(const std::vector<T>& values) {
  std::map<T, int> counts;
  for (const T& value : values) ++counts[value];
  return std::ranges::max_element(counts, {}, &std::pair<const T, int>::second)->first;
}

class ConfigWriter {
 public:
  ConfigWriter(const AdapterDescription& adapters, const ParameterManifest& manifest, const PeftStyle& style)
      : names_(manifest, style.tree) {
    for (const AdaptedTensor& adapted : adapters.tensors)
      weights_.push_back(weight_of(manifest, adapted).info);
    for (const AdaptableWeight& weight : adaptable_weights(manifest))
      ++all_[names_.within_layer(weight.info)];
    for (const TensorInfo& weight : weights_) ++adapted_[names_.within_layer(weight)];
  }

  /// Names of the adapted modules, or parameters: one name for all layers if all that have it are adapted.
  [[nodiscard]] json targets(bool parameters) const {
    std::set<std::string> targets;
    for (const TensorInfo& weight : weights_) {
      if (names_.is_parameter(weight) != parameters) continue;
      const std::string end = names_.within_layer(weight);
      targets.insert(adapted_.at(end) == all_.at(end) ? end : names_.of(weight));
    }
    return targets;
  }

  /// Object {pattern: value} of the weights whose value is not `usual`.
  template <class T>
  [[nodiscard]] json patterns(const std::vector<T>& values, const T& usual) const {
    std::map<std::string, std::set<T>> by_end;
    for (std::size_t i = 0; i < values.size(); ++i)
      by_end[names_.within_layer(weights_[i])].insert(values[i]);
    json out = json::object();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string end = names_.within_layer(weights_[i]);
      const bool is_same = by_end[end].size() == 1;
      if (values[i] != usual)
        out[escaped(is_same ? end : names_.of(weights_[i]))] = number(static_cast<double>(values[i]));
    }
    return out;
  }

 private:
  PeftNames names_;
  std::vector<TensorInfo> weights_;
  std::map<std::string, int> all_, adapted_;  ///< number of weights with each ending, and of adapted ones
};

}  // namespace

std::vector<PeftTensor> peft_tensors(const AdapterDescription& adapters, const ParameterManifest& manifest,
                                     const PeftStyle& style) {
  std::vector<PeftTensor> tensors;
  for (const AdaptedTensor& adapted : adapters.tensors) {
    const AdaptableWeight weight = weight_of(manifest, adapted);
    const std::int64_t ranks = weight.experts() * adapted.rank;
    const std::string& name = weight.info.name;
    const auto path_of = [&](const std::string& tensor) {
      return weight.is_fused() ? tensor.substr(0, tensor.rfind('.')) : module_of(tensor);
    };
    PeftName a{path_of(manifest.tree_name(name)), 0, LowRankPart::kA};
    // The wrapper of down_proj encloses that of gate_up_proj, or up_proj.
    if (weight.is_fused() && !name.ends_with("down_proj") &&
        adapters.find(path_of(name) + ".down_proj") != nullptr)
      a.wrapped = 1;
    PeftName b = a;
    b.part = LowRankPart::kB;
    const SafetensorsEntry entry_a{peft_name(a, style.tree), DType::kFloat32, {ranks, weight.in()}};
    const SafetensorsEntry entry_b{peft_name(b, style.tree), DType::kFloat32, {weight.out(), ranks}};
    tensors.push_back({entry_a, parts_of_a(manifest, weight, adapted.rank)});
    tensors.push_back({entry_b, parts_of_b(manifest, weight, adapted.rank)});
  }
  return tensors;
}

std::string peft_config_text(const AdapterDescription& adapters, const ParameterManifest& manifest,
                             const PeftStyle& style, std::string_view base_model) {
  SLUICE_ASSERT(!adapters.empty(), "an adapter needs at least one weight");
  std::vector<std::int64_t> ranks;
  std::vector<double> alphas;
  for (const AdaptedTensor& adapted : adapters.tensors) {
    const double alpha = adapted.scale * scale_divisor(adapted.rank, ScaleRule{style.rslora});
    ranks.push_back(adapted.rank);
    alphas.push_back(number(alpha).get<double>());
  }
  const std::int64_t rank = most_frequent(ranks);
  const double alpha = most_frequent(alphas);
  const ConfigWriter writer(adapters, manifest, style);
  const json parameters = writer.targets(/*parameters=*/true);
  // PEFT opens no adapter with dropout of parameters, and a trained one needs none.
  const double dropout = parameters.empty() ? adapters.dropout : 0;
  const json config{
      {"alpha_pattern", writer.patterns(alphas, alpha)},
      {"base_model_name_or_path", base_model},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", number(alpha)},
      {"lora_dropout", number(dropout)},
      {"peft_type", "LORA"},
      {"peft_version", kVersion},
      {"r", rank},
      {"rank_pattern", writer.patterns(ranks, rank)},
      {"target_modules", writer.targets(/*parameters=*/false)},
      {"target_parameters", parameters},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", style.rslora},
  };
  return config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace sluice
