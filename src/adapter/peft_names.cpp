#include "adapter/peft_names.hpp"

#include "manifest/spelling.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace sluice {
namespace {

constexpr std::string_view kTree = "base_model.model.";
constexpr std::string_view kWrapped = ".base_layer";
constexpr std::string_view kExperts = ".experts.";

bool take_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

/// Plain name of a module; spellings are of weights, so one is appended and removed.
std::string plain_module(std::string_view path) {
  return module_of(plain_name(std::string(path).append(kWeightEnd)));
}

}  // namespace

std::string module_of(std::string_view weight) {
  take_end(weight, kWeightEnd);
  return std::string(weight);
}

std::optional<PeftName> parse_peft_name(std::string_view name) {
  if (name.starts_with(kTree)) name.remove_prefix(kTree.size());
  PeftName found;
  if (!take_end(name, kWeightEnd)) return std::nullopt;
  const auto take_part = [&] {
    if (take_end(name, ".lora_B"))
      found.part = LowRankPart::kB;
    else if (!take_end(name, ".lora_A"))
      return false;
    return true;
  };
  if (!take_part()) {
    found.adapter =
        name.substr(name.rfind('.') + 1);  // all of a name without a dot, which has no part either
    if (found.adapter.empty() || !take_end(name, "." + found.adapter) || !take_part()) return std::nullopt;
  }
  while (take_end(name, kWrapped)) ++found.wrapped;
  found.path = plain_module(name);
  return found;
}

std::string in_tree(std::string_view name, std::string_view tree) {
  constexpr std::string_view kPlain = "model.";
  if (!name.starts_with(kPlain)) return std::string(name);
  return std::string(tree).append(name.substr(kPlain.size()));
}

std::string name_within_layer(const std::string& name, int layer) {
  if (layer < 0) return name;
  const std::string layers = fmt::format("layers.{}.", layer);
  const std::size_t at = name.find(layers);
  return at == std::string::npos ? name : name.substr(at + layers.size());
}

std::string peft_name(const PeftName& name, std::string_view tree) {
  std::string text = std::string(kTree).append(in_tree(name.path, tree));
  for (int i = 0; i < name.wrapped; ++i) text += kWrapped;
  return text.append(name.part == LowRankPart::kA ? ".lora_A" : ".lora_B").append(kWeightEnd);
}

std::optional<ExpertModule> parse_expert_module(std::string_view path) {
  const std::size_t at = path.rfind(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = path.substr(at + kExperts.size());
  ExpertModule found{std::string(path.substr(0, at + kExperts.size() - 1)), 0, {}};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), found.expert);
  if (error != std::errc() || end == number.data() + number.size() || *end != '.' || found.expert < 0)
    return std::nullopt;
  found.projection = number.substr(static_cast<std::size_t>(end - number.data()) + 1);
  if (found.projection != "gate_proj" && found.projection != "up_proj" && found.projection != "down_proj")
    return std::nullopt;
  return found;
}

}  // namespace sluice
