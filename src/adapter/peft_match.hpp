// Matches the tensors of an adapter's file with a model. Part of read_peft_adapter().
#pragma once

#include "adapter/peft_adapter.hpp"
#include "adapter/peft_names.hpp"
#include "adapter/peft_targets.hpp"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Collects the tensors of a file by the weight that they adapt, and all faults.
class PeftMatch {
 public:
  /// All references must outlive this object.
  PeftMatch(const PeftConfig& config, const PeftTargets& targets, const ParameterManifest& manifest);

  void add(const SafetensorsEntry& entry);
  /// Appends the matched tensors to `out`; nothing may be added afterwards. Error(kBadData) with all faults,
  /// which names the file `file`.
  void finish(const std::string& file, PeftAdapter& out);

 private:
  using Pair = std::array<const SafetensorsEntry*, 2>;  ///< entries of A and B
  /// Tensors found for a weight: a pair, or one pair for each expert and projection (0: gate or down, 1: up).
  struct Found {
    Pair whole{};
    std::map<std::pair<std::int64_t, int>, Pair> experts;
  };

  /// Index in weights_ of the weight with this name.
  [[nodiscard]] std::optional<int> find(const std::string& weight) const;
  /// Index of the weight that the tokens of a module of fused experts meet first: gate and up, or up alone.
  [[nodiscard]] std::optional<int> find_inner(const std::string& experts) const;
  void add(const SafetensorsEntry& entry, const PeftName& name);
  [[nodiscard]] std::string why_not_adapted(const std::string& weight) const;
  void add_fused(const SafetensorsEntry& entry, const PeftName& name);
  void add_expert(const SafetensorsEntry& entry, const PeftName& name, const ExpertModule& module);
  void put(Pair& pair, const SafetensorsEntry& entry, const PeftName& name);
  void unexpected(const SafetensorsEntry& entry, std::string_view why);

  /// Adapter of a weight; nothing if it has none or a fault.
  [[nodiscard]] std::optional<AdaptedTensor> match(const AdaptableWeight& weight, const Found& found,
                                                   std::vector<PeftTensor>& tensors);
  [[nodiscard]] std::optional<AdaptedTensor> match_whole(const AdaptableWeight& weight, const Pair& pair,
                                                         std::vector<PeftTensor>& tensors);
  [[nodiscard]] std::optional<AdaptedTensor> match_experts(const AdaptableWeight& weight, const Found& found,
                                                           std::vector<PeftTensor>& tensors);
  [[nodiscard]] bool is_by_position(const AdaptableWeight& weight, const Pair& pair, std::int64_t rank) const;
  [[nodiscard]] int projections_of(const AdaptableWeight& weight, const std::string& named,
                                   const SafetensorsEntry& a) const;
  [[nodiscard]] bool has_shape(const SafetensorsEntry& entry, std::int64_t rows, std::int64_t columns,
                               std::int64_t rank);
  void require_targets(const std::map<int, Found>& found);
  [[nodiscard]] bool is_target(const AdaptableWeight& weight) const;
  /// Whether "all-linear" selects a weight.
  [[nodiscard]] bool is_linear_target(const AdaptableWeight& weight) const;
  /// Fused parameters of a module that target_parameters or "all-linear" select, in the order of the module.
  [[nodiscard]] std::vector<int> fused_targets(const std::string& module) const;

  const PeftConfig& config_;
  const PeftTargets& targets_;
  const ParameterManifest& manifest_;
  std::vector<AdaptableWeight> weights_;
  std::unordered_map<std::string, int> by_name_;  ///< index in weights_ of each weight, by its name
  std::map<int, Found> found_;                    ///< entries found for a weight, by its index in weights_
  std::vector<std::string> faults_;               ///< faults, one line each
  std::vector<std::string> missing_;
  std::optional<std::string> adapter_;  ///< name of the adapter in the file's names; nothing before the first
  bool is_wrapped_ = false;             ///< whether the file was made for a wrapper around the text model
};

}  // namespace sluice
