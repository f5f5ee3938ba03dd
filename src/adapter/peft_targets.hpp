// Targets of an adapter_config.json: the weights that it selects, with rank and scale.
#pragma once

#include "adapter/peft_config.hpp"
#include "manifest/manifest.hpp"
#include "text/matching/name_expression.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Targets of a configuration. Names are those of the text model; the configuration may use those of a
/// wrapper, or of transformers' module tree.
class PeftTargets {
 public:
  /// Error(kBadData) for an invalid pattern. `config` and the model's manifest must outlive this object.
  PeftTargets(const PeftConfig& config, const ParameterManifest& manifest);

  /// Whether target_modules select a module: "model.layers.0.self_attn.q_proj". "all-linear" selects each one
  /// that is not excluded: which of them are linear is the model's to tell.
  [[nodiscard]] bool means_module(const std::string& name) const;
  /// Whether target_modules are the text "all-linear", in whatever letters: every linear layer but the head.
  [[nodiscard]] bool means_all_linear() const { return all_linear_; }
  /// Whether target_parameters select a parameter: "model.layers.0.mlp.experts.gate_up_proj".
  [[nodiscard]] bool means_parameter(const std::string& name) const;
  /// Rank, and scale, of the adapter of a module or parameter. Of a parameter with the projections of several
  /// linear layers PEFT multiplies r and lora_alpha by their number; what a pattern gives counts as it is.
  [[nodiscard]] std::int64_t rank_of(const std::string& name, int projections = 1) const;
  [[nodiscard]] double scale_of(const std::string& name, int projections = 1) const;

 private:
  struct NameSet {
    std::vector<std::string> names;
    std::optional<text::NameExpression> expression;
  };
  template <class T>
  using Compiled = std::vector<std::pair<text::NameExpression, T>>;

  /// Whether `holds` is true of a name as in the text model, as in a wrapper around it, or as in transformers' module
  /// tree.
  template <class Holds>
  [[nodiscard]] bool holds_in_a_tree(const std::string& name, Holds holds) const;
  /// Value of the first pattern that matches a name; null if none does.
  template <class T>
  [[nodiscard]] const T* first_match(const Compiled<T>& patterns, const std::string& name) const;
  [[nodiscard]] bool is_in(const NameSet& set, const std::string& name) const;
  [[nodiscard]] NameSet names_of(const PeftConfig::Names& names, std::string_view key) const;
  [[nodiscard]] bool is_in_layers(std::string_view name) const;

  const PeftConfig& config_;
  const ParameterManifest& manifest_;
  bool all_linear_;
  NameSet modules_, excluded_;
  Compiled<std::int64_t> ranks_;
  Compiled<double> alphas_;
};

}  // namespace sluice
