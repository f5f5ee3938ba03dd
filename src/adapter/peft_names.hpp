// Names of tensors in adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// End of the name of a module's weight, after the module's name.
inline constexpr std::string_view kWeightEnd = ".weight";
/// Module of a weight with this name; a parameter that is no module's weight stays as it is.
[[nodiscard]] std::string module_of(std::string_view weight);

enum class LowRankPart : std::uint8_t { kA, kB };

struct PeftName {
  std::string path;  ///< path of the module in the text model's tree: "model.layers.0.mlp.experts"
  int wrapped = 0;   ///< number of wrappers around this one, for further parameters of the same module
  LowRankPart part = LowRankPart::kA;
  /// Name of the adapter that a state dict has behind lora_A or lora_B ("default"); "" in files that PEFT saves.
  std::string adapter{};
};

/// Prefix of the text model's names inside another model, as in transformers.
inline constexpr std::string_view kWrappedTree = "model.language_model.";

/// Parses names such as "base_model.model.model.layers.0.mlp.experts.base_layer.lora_A.weight", whatever
/// wrapper the model was in, and "...lora_A.default.weight" with an adapter's name; nothing for a name of
/// another form.
[[nodiscard]] std::optional<PeftName> parse_peft_name(std::string_view name);

/// Name of a tensor in a file, with `tree` in place of "model.".
[[nodiscard]] std::string peft_name(const PeftName& name, std::string_view tree = "model.");
/// A name of the text model with `tree` in place of "model.", if it begins so.
[[nodiscard]] std::string in_tree(std::string_view name, std::string_view tree);

/// Name within its layer, "self_attn.q_proj" for "model.layers.3.self_attn.q_proj"; a name outside of layers
/// (`layer` -1) stays as it is.
[[nodiscard]] std::string name_within_layer(const std::string& name, int layer);

/// A projection of an expert that is a module: "model.layers.0.mlp.experts.7.up_proj".
struct ExpertModule {
  std::string experts;  ///< path of the experts: "model.layers.0.mlp.experts"
  std::int64_t expert = 0;
  std::string projection;  ///< name of the projection: "gate_proj", "up_proj" or "down_proj"
};
[[nodiscard]] std::optional<ExpertModule> parse_expert_module(std::string_view path);

}  // namespace sluice
