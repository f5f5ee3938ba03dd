#include "adapter/peft_targets.hpp"

#include "adapter/peft_names.hpp"
#include "manifest/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace sluice {
namespace {

/// Whether `name` is `end`, or ends with a dot and `end`.
bool ends_with_name(std::string_view name, std::string_view end) {
  return name == end ||
         (name.size() > end.size() && name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

/// Expression for a pattern of rank_pattern or alpha_pattern, which matches the end of a name behind a dot.
text::NameExpression end_expression(std::string_view pattern, std::string name) {
  return {fmt::format("(.*\\.)?({})", pattern), std::move(name)};
}

/// Whether targets are PEFT's name for every linear layer, whose letters PEFT takes in either case.
bool is_all_linear(const PeftConfig::Names& names) {
  constexpr std::string_view kAllLinear = "all-linear";
  const auto* text = std::get_if<std::string>(&names);
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  return text != nullptr && std::ranges::equal(*text, kAllLinear, same);
}

/// Number behind "layers."; -1: none.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  std::int64_t layer = -1;
  if (at != std::string_view::npos)
    std::from_chars(name.data() + at + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

}  // namespace

template <class Holds>
bool PeftTargets::holds_in_a_tree(const std::string& name, Holds holds) const {
  return holds(name) || holds(in_tree(name, kWrappedTree)) || holds(manifest_.tree_name(name));
}

template <class T>
const T* PeftTargets::first_match(const Compiled<T>& patterns, const std::string& name) const {
  const auto found = std::ranges::find_if(patterns, [&](const auto& pattern) {
    return holds_in_a_tree(name, [&](const std::string& spelled) { return pattern.first.matches(spelled); });
  });
  return found == patterns.end() ? nullptr : &found->second;
}

bool PeftTargets::is_in(const NameSet& set, const std::string& name) const {
  return holds_in_a_tree(name, [&](const std::string& spelled) {
    if (set.expression) return set.expression->matches(spelled);
    return std::ranges::any_of(set.names,
                               [&](const std::string& end) { return ends_with_name(spelled, end); });
  });
}

PeftTargets::PeftTargets(const PeftConfig& config, const ParameterManifest& manifest)
    : config_(config),
      manifest_(manifest),
      all_linear_(is_all_linear(config.target_modules)),
      modules_(all_linear_ ? NameSet{} : names_of(config.target_modules, "target_modules")),
      excluded_(names_of(config.exclude_modules, "exclude_modules")) {
  for (const auto& [pattern, rank] : config.rank_pattern)
    ranks_.emplace_back(end_expression(pattern, config.source + ": rank_pattern"), rank);
  for (const auto& [pattern, alpha] : config.alpha_pattern)
    alphas_.emplace_back(end_expression(pattern, config.source + ": alpha_pattern"), alpha);
}

PeftTargets::NameSet PeftTargets::names_of(const PeftConfig::Names& names, std::string_view key) const {
  if (const auto* list = std::get_if<std::vector<std::string>>(&names)) return {*list, std::nullopt};
  return {{}, text::NameExpression(std::get<std::string>(names), fmt::format("{}: {}", config_.source, key))};
}

bool PeftTargets::means_module(const std::string& name) const {
  if (is_in(excluded_, name)) return false;
  if (all_linear_) return true;
  if (!is_in(modules_, name)) return false;
  const bool is_exact = holds_in_a_tree(name, [&](const std::string& spelled) {
    return std::ranges::find(modules_.names, spelled) != modules_.names.end();
  });
  return is_exact || modules_.expression || is_in_layers(name);
}

bool PeftTargets::means_parameter(const std::string& name) const {
  return holds_in_a_tree(name, [&](const std::string& spelled) {
    return std::ranges::any_of(config_.target_parameters,
                               [&](const std::string& end) { return ends_with_name(spelled, end); });
  });
}

bool PeftTargets::is_in_layers(std::string_view name) const {
  return !config_.layers_to_transform || std::ranges::find(*config_.layers_to_transform, layer_of(name)) !=
                                             config_.layers_to_transform->end();
}

std::int64_t PeftTargets::rank_of(const std::string& name, int projections) const {
  const std::int64_t* rank = first_match(ranks_, name);
  return rank == nullptr ? config_.rank * projections : *rank;
}

double PeftTargets::scale_of(const std::string& name, int projections) const {
  const double* alpha = first_match(alphas_, name);
  return (alpha == nullptr ? config_.alpha * projections : *alpha) /
         scale_divisor(rank_of(name, projections), ScaleRule{config_.rslora});
}

}  // namespace sluice
