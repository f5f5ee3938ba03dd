// Description of a model (shape, manifest) from a model directory's config.json. No weights are read.
#pragma once

#include "base/dtype.hpp"
#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <filesystem>
#include <span>
#include <string_view>

namespace sluice {

/// One family of models. To add one, write a file like qwen3.cpp and list it in architecture.cpp.
struct Architecture {
  std::string_view model_type;  ///< value of model_type in config.json
  ModelConfig (*read_config)(const ConfigReader& config);
  ParameterManifest (*describe)(const ModelConfig& config, DType dtype);
};

/// Every architecture there is.
[[nodiscard]] std::span<const Architecture> architectures();

/// Description of a model: config, manifest and adapters.
struct ModelDescription {
  ModelConfig config;
  ParameterManifest manifest;     ///< manifest of the model, with its adapters' tensors if it has any
  AdapterDescription adapters{};  ///< adapters; none after reading config.json alone
};

/// Parameters that a token meets: all but the experts that its routers leave out.
[[nodiscard]] std::int64_t active_parameters(const ModelDescription& model);
/// Operations of a token's training step, nothing computed twice: 2 for each active parameter forward, 2 for
/// the gradient of what goes into it from `lowest_layer` up (-1: everywhere), and 2 for its own gradient if
/// it is trained.
[[nodiscard]] double training_operations(const ModelDescription& model, int lowest_layer);

/// Reads `directory`/config.json. Every tensor has element type `dtype`. Error(kBadData) if the file is
/// missing or broken, the architecture is not known, or a setting is one that we would compute wrongly.
[[nodiscard]] ModelDescription describe_model(const std::filesystem::path& directory, DType dtype);

/// Describes a model in the element type that config.json names for the published weights.
[[nodiscard]] ModelDescription describe_published_model(const std::filesystem::path& directory);

/// Describes a model from the text of a config.json; `name` is used in messages.
[[nodiscard]] ModelDescription describe_model_text(std::string_view config_json, const std::string& name,
                                                   DType dtype);

}  // namespace sluice
